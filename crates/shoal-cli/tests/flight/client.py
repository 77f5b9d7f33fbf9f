"""ADBC's driver of Flight SQL against the command.

    python client.py ADDRESS [TOKEN]

The database has tables item(id INTEGER PRIMARY KEY, name TEXT, price REAL, tag) and secret(n). With
a token, its principal sees item alone, and of it the rows with a price.
"""

import sys
import threading

import adbc_driver_manager
import pyarrow
import pyarrow.flight
from adbc_driver_flightsql import DatabaseOptions
from adbc_driver_flightsql import dbapi as flight_sql

ENDLESS = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c) SELECT max(x) FROM c"


def connect(address, token=None):
    options = {}
    if token is not None:
        options[DatabaseOptions.AUTHORIZATION_HEADER.value] = f"Bearer {token}"
    return flight_sql.connect(address, db_kwargs=options, autocommit=True)


def table(cursor, sql, parameters=None):
    cursor.execute(sql, parameters)
    return cursor.fetch_arrow_table()


def refusal(cursor, sql):
    try:
        table(cursor, sql)
    except adbc_driver_manager.Error as error:
        return str(error)
    raise AssertionError(f"{sql} was answered")


def whole(address):
    with connect(address) as connection, connection.cursor() as cursor:
        found = table(cursor, "SELECT * FROM item ORDER BY id")
        assert found.schema.types == [
            pyarrow.int64(),
            pyarrow.utf8(),
            pyarrow.float64(),
            pyarrow.utf8(),
        ], found.schema
        assert found.to_pylist()[1] == {"id": 2, "name": "nut", "price": None, "tag": "7"}
        found = table(cursor, "SELECT count(*) AS n, avg(price) AS a FROM item")
        assert found.to_pylist() == [{"n": 3, "a": 1.5}], found.to_pylist()
        found = table(cursor, "SELECT name FROM item WHERE id = ? AND name LIKE ?", (3, "%"))
        assert found.to_pylist() == [{"name": "żuraw"}]
        found = table(cursor, "SELECT ? AS a, ? AS b, ? AS c, ? AS d", (1, 2.5, "x", b"\x00\xff"))
        assert found.to_pylist() == [{"a": 1, "b": 2.5, "c": "x", "d": b"\x00\xff"}]
        # Many rows, in batches.
        count = "WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c WHERE x < 100000) "
        numbers = table(cursor, count + "SELECT x, 'row ' || x AS s FROM c")
        assert numbers.num_rows == 100_000 and numbers["s"][99_999].as_py() == "row 100000"
        said = refusal(cursor, "SELECT * FROM nowhere")
        assert "no such table: nowhere" in said, said
        said = refusal(cursor, "DELETE FROM item")
        assert "only reads" in said, said
        # What tools for people look around by.
        assert connection.adbc_get_info()["vendor_name"] == "Shoal"
        assert "VIEW" in connection.adbc_get_table_types()
        objects = connection.adbc_get_objects(depth="all").read_all().to_pylist()
        [catalog] = objects
        assert catalog["catalog_name"] == "main", catalog
        [schema] = catalog["catalog_db_schemas"]
        tables = {it["table_name"]: it for it in schema["db_schema_tables"]}
        assert {"item", "secret"} <= set(tables), tables
        columns = [it["column_name"] for it in tables["item"]["table_columns"]]
        assert columns == ["id", "name", "price", "tag"], columns
        assert connection.adbc_get_table_schema("item").names == columns
        assert cursor.adbc_execute_schema("SELECT name FROM item").names == ["name"]
        # A statement is stopped by its client.
        stopping = threading.Timer(0.5, cursor.adbc_cancel)
        stopping.start()
        refusal(cursor, ENDLESS)
        stopping.join()
        assert table(cursor, "SELECT 1 AS n").to_pylist() == [{"n": 1}]


def plain_flight(address, token):
    """pyarrow's client, which knows Flight and nothing of SQL: a name and a password."""
    client = pyarrow.flight.FlightClient(address.replace("grpc://", "grpc+tcp://"))
    pair = client.authenticate_basic_token("whoever", token)
    assert pair == (b"authorization", b"Bearer " + token.encode()), pair
    options = pyarrow.flight.FlightCallOptions(headers=[pair])
    actions = [action.type for action in client.list_actions(options)]
    assert "CreatePreparedStatement" in actions, actions


def narrowed(address, token):
    with connect(address, token) as connection, connection.cursor() as cursor:
        found = table(cursor, "SELECT name FROM item ORDER BY id")
        assert found.to_pylist() == [{"name": "bolt"}, {"name": "żuraw"}]
        said = refusal(cursor, "SELECT * FROM secret")
        assert "no such table: secret" in said, said
        [catalog] = connection.adbc_get_objects(depth="tables").read_all().to_pylist()
        [schema] = catalog["catalog_db_schemas"]
        assert [it["table_name"] for it in schema["db_schema_tables"]] == ["item"]
    for wrong in [None, token + "x"]:
        try:
            with connect(address, wrong) as connection, connection.cursor() as cursor:
                table(cursor, "SELECT 1")
        except adbc_driver_manager.Error as error:
            assert "token" in str(error).lower(), error
        else:
            raise AssertionError("a door without its token was open")
    plain_flight(address, token)


def main():
    address, *token = sys.argv[1:]
    if token:
        narrowed(address, token[0])
    else:
        whole(address)
    print("all well")


main()
