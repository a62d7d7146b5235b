"""Requests whose end or meaning can be read in two ways. Behind each comes another request, the hidden one: who reads it as a request of its own
has been tricked."""


def hidden_request(key, name):
    """Leaves a trace if it is ever run: a queue."""
    return (f"PUT /v1/queues/{name} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\nContent-Type: application/json\r\n"
            "Content-Length: 2\r\n\r\n{}").encode()


def lengths(hidden):
    """Content-Length in forms that some readers accept."""
    whole = 2 + len(hidden)
    yield "two lengths", f"Content-Length: 2\r\nContent-Length: {whole}"
    yield "two lengths, the longer first", f"Content-Length: {whole}\r\nContent-Length: 2"
    yield "two equal lengths", "Content-Length: 2\r\nContent-Length: 2"
    yield "two lengths in different case", f"Content-Length: 2\r\ncontent-length: {whole}"
    yield "a list of lengths", "Content-Length: 2, 2"
    yield "a list of different lengths", f"Content-Length: 2, {whole}"
    yield "a plus sign", "Content-Length: +2"
    yield "a minus sign", "Content-Length: -2"
    yield "a length in hexadecimal", "Content-Length: 0x2"
    yield "a length with a fraction", "Content-Length: 2.0"
    yield "a length with an exponent", "Content-Length: 2e0"
    yield "a length with a letter", "Content-Length: 2a"
    yield "a length with a blank inside", "Content-Length: 2 2"
    yield "a length with an underscore", "Content-Length: 0_2"
    yield "a length in quotes", 'Content-Length: "2"'
    yield "an empty length", "Content-Length:"
    yield "a length above 64 bits", "Content-Length: 18446744073709551618"
    yield "a length of 40 digits", "Content-Length: " + "9" * 40
    yield "a length with a parameter", "Content-Length: 2; a=b"
    yield "a blank before the colon of the length", "Content-Length : 2"
    yield "a tab before the colon of the length", "Content-Length\t: 2"
    yield "a folded length", "Content-Length:\r\n 2"
    yield "a length behind a folded header", "X: a\r\n b\r\nContent-Length: 2"
    yield "a form feed before the length", "Content-Length: \x0c2"
    yield "NUL behind the length", "Content-Length: 2\0"


def codings():
    """Transfer-Encoding in forms that some readers take for chunks and others do not."""
    yield "length and chunks", "Content-Length: 5\r\nTransfer-Encoding: chunked"
    yield "chunks and length", "Transfer-Encoding: chunked\r\nContent-Length: 5"
    yield "a coding that does not exist", "Transfer-Encoding: xchunked"
    yield "a coding and chunks", "Transfer-Encoding: x, chunked"
    yield "chunks and a coding", "Transfer-Encoding: chunked, x"
    yield "chunks twice in a list", "Transfer-Encoding: chunked, chunked"
    yield "chunks twice", "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked"
    yield "chunks and identity", "Transfer-Encoding: chunked\r\nTransfer-Encoding: identity"
    yield "identity", "Transfer-Encoding: identity\r\nContent-Length: 5"
    yield "gzip and chunks", "Transfer-Encoding: gzip, chunked"
    yield "an empty coding", "Transfer-Encoding:"
    yield "an empty coding in a list", "Transfer-Encoding: , chunked"
    yield "chunks in quotes", 'Transfer-Encoding: "chunked"'
    yield "chunks with a parameter", "Transfer-Encoding: chunked; a=b"
    yield "a folded coding", "Transfer-Encoding:\r\n chunked"
    yield "a vertical tab before the coding", "Transfer-Encoding: \x0bchunked"
    yield "NUL behind the coding", "Transfer-Encoding: chunked\0"
    yield "a blank before the colon of the coding", "Transfer-Encoding : chunked"
    yield "a blank before the name of the coding", " Transfer-Encoding: chunked"
    yield "a bare CR before the coding", "X: a\rTransfer-Encoding: chunked"
    yield "a bare LF before the coding", "X: a\nTransfer-Encoding: chunked"


def chunks():
    """Bodies in chunks whose end is not clear."""
    yield "a chunk extension", "2;a=b\r\n{}\r\n0\r\n\r\n"
    yield "a chunk extension without a name", "2;\r\n{}\r\n0\r\n\r\n"
    yield "a chunk extension with a bare LF", "2;\n{}\r\n0\r\n\r\n"
    yield "a chunk size with a prefix", "0x2\r\n{}\r\n0\r\n\r\n"
    yield "a chunk size with a plus sign", "+2\r\n{}\r\n0\r\n\r\n"
    yield "a chunk size with a minus sign", "-2\r\n{}\r\n0\r\n\r\n"
    yield "a chunk size with a blank before it", " 2\r\n{}\r\n0\r\n\r\n"
    yield "a chunk size with a blank behind it", "2 \r\n{}\r\n0\r\n\r\n"
    yield "a chunk size with an underscore", "0_2\r\n{}\r\n0\r\n\r\n"
    yield "a chunk size above 64 bits", "10000000000000002\r\n{}\r\n0\r\n\r\n"
    yield "an empty chunk size", "\r\n{}\r\n0\r\n\r\n"
    yield "a chunk size that ends in LF", "2\n{}\r\n0\r\n\r\n"
    yield "a chunk size that ends in CR", "2\r{}\r\n0\r\n\r\n"
    yield "a chunk that is longer than its size", "2\r\n{}x\r\n0\r\n\r\n"
    yield "a chunk without its end", "2\r\n{}0\r\n\r\n"
    yield "a chunk that ends in LF", "2\r\n{}\n0\r\n\r\n"
    yield "a trailer", "2\r\n{}\r\n0\r\nA: b\r\n\r\n"
    yield "a length in the trailer", "2\r\n{}\r\n0\r\nContent-Length: 5\r\n\r\n"
    yield "a last chunk that ends in LF", "2\r\n{}\r\n0\n\n"


def heads():
    """Whole heads."""
    yield "a bare LF", "GET /health HTTP/1.1\nHost: x\n\n"
    yield "a bare CR in a value", "GET /health HTTP/1.1\r\nHost: x\r\nX: a\rContent-Length: 5\r\n\r\n"
    yield "NUL in a value", "GET /health HTTP/1.1\r\nHost: x\r\nX: a\0b\r\n\r\n"
    yield "NUL in a name", "GET /health HTTP/1.1\r\nHost: x\r\nX\0: a\r\n\r\n"
    yield "two Hosts", "GET /health HTTP/1.1\r\nHost: x\r\nHost: y\r\n\r\n"
    yield "no Host", "GET /health HTTP/1.1\r\nX: y\r\n\r\n"
    yield "a header without a colon", "GET /health HTTP/1.1\r\nHost: x\r\nX\r\n\r\n"
    yield "a header without a name", "GET /health HTTP/1.1\r\nHost: x\r\n: a\r\n\r\n"
    yield "an escaped slash", "GET /v1%2ftasks HTTP/1.1\r\nHost: x\r\n\r\n"
    yield "an absolute URI", "GET http://127.0.0.1/health HTTP/1.1\r\nHost: x\r\n\r\n"
    yield "two blanks before the URI", "GET  /health HTTP/1.1\r\nHost: x\r\n\r\n"
    yield "a tab before the URI", "GET\t/health HTTP/1.1\r\nHost: x\r\n\r\n"
    yield "a blank in the URI", "GET /health /x HTTP/1.1\r\nHost: x\r\n\r\n"
    yield "a blank behind the version", "GET /health HTTP/1.1 \r\nHost: x\r\n\r\n"
    yield "a version in lower case", "GET /health http/1.1\r\nHost: x\r\n\r\n"
    yield "a version without a dot", "GET /health HTTP/11\r\nHost: x\r\n\r\n"
    yield "no version", "GET /health\r\n\r\n"
    yield "chunks in HTTP/1.0", ("POST /v1/tasks HTTP/1.0\r\nHost: x\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n"
                                 "0\r\n\r\n")
    yield "two lengths, no such path", "POST /nope HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}"


def cases(hidden, key):
    """(what, the bytes with the hidden request behind them)"""
    begin = f"POST /v1/tasks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {key}\r\n"
    made = [(what, f"{begin}{fields}\r\n\r\n{{}}") for what, fields in lengths(hidden)]
    made += [(what, f"{begin}{fields}\r\n\r\n0\r\n\r\n") for what, fields in codings()]
    made += [(what, f"{begin}Transfer-Encoding: chunked\r\n\r\n{body}") for what, body in chunks()]
    made += heads()
    return [(what, data.encode() + hidden) for what, data in made]


NAMES = [what for what, _ in cases(b"", "")]
