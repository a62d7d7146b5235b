"""docs/OPERATIONS.md: the drill with pg_dump is done as it is written there, on a database with nodes that run."""

from server import Server
from test_docs_examples import follow


def test_the_restore_drill_works_while_nodes_run(build, postgres, database, tmp_path):
    drill = postgres.new_database()
    server = Server(tmp_path / "data", "--store", postgres.url(database)).start()
    client = server.client()
    try:
        client.create(name="nightly", cron_expression="0 3 * * *", target_type="NOOP")
        client.create(name="later", delay="1h", target_type="NOOP", payload={"text": "ü"})
        client.wait_for(client.create(name="ran", target_type="NOOP")["id"], "COMPLETED")
        env = {"BELFRY_STORE": postgres.url(database), "DRILL_STORE": postgres.url(drill)}
        follow("OPERATIONS", tmp_path / "page", build, env, {})
        tasks = {task["id"]: task["status"] for task in client.all("/v1/tasks")}
        key = server.key
        server.stop()
        server.arguments = ("--store", postgres.url(drill))
        server.start()
        assert server.key == key and {task["id"]: task["status"] for task in client.all("/v1/tasks")} == tasks
    finally:
        client.close()
        server.close()
        postgres.drop_database(drill)
