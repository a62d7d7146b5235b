"""A certificate authority in a folder, by openssl's own program."""

import subprocess

EC = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")


class Authority:
    def __init__(self, folder):
        self.folder = folder
        folder.mkdir()
        self.ca_file = folder / "ca.pem"
        self._openssl("req", "-x509", *EC, "-keyout", "ca.key", "-out", "ca.pem", "-days", "30", "-subj", "/CN=Belfry's tests")

    def _openssl(self, *arguments):
        done = subprocess.run(["openssl", *arguments], cwd=self.folder, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr

    def certificate(self, name, names="IP:127.0.0.1,DNS:localhost", days=30):
        """The file that holds a key and a certificate for these names; beside it, name.key and name.pem hold one each."""
        (self.folder / f"{name}.ext").write_text(f"subjectAltName={names}\n")
        self._openssl("req", *EC, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", str(days),
                      "-extfile", f"{name}.ext", "-out", f"{name}.pem")
        whole = self.folder / f"{name}.both"
        whole.write_bytes((self.folder / f"{name}.key").read_bytes() + (self.folder / f"{name}.pem").read_bytes())
        return whole
