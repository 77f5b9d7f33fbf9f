"""Makes book.xlsx, book.xls, book.ods and book.xlsb, the same workbook four times.

    pip install openpyxl xlwt odfpy
    python3 make.py

openpyxl, xlwt and odfpy write the first three. No library writes .xlsb: its records are put
together here, after [MS-XLSB].
"""

import datetime as dt
import struct
import zipfile

DAY, MOMENT = dt.date, dt.datetime
ERROR = "#DIV/0!"
# Sheets with the place of their first cell; None is an empty cell.
SHEETS = [
    ("people", (0, 0), False, [
        ["name", "born", "seen", "score", "zip", "active", "ratio"],
        ["Ada", DAY(2001, 12, 10), MOMENT(2024, 2, 29, 12, 30), 1, "02134", True, 0.5],
        ["Emmy", DAY(1982, 3, 23), None, 2.5, "10001", False, ERROR],
        [None] * 7,
        ["\u00c9va, jr", None, MOMENT(2024, 3, 1, 0, 0), -3, "00501", True, ERROR],
    ]),
    ("place", (2, 1), False, [
        ["city", None, "size"],
        ["Oslo", None, 7],
        ["Bergen", None, "large"],
    ]),
    ("secret", (0, 0), True, [["k"], [1]]),
    ("blank", (0, 0), False, []),
]


def xlsx():
    import openpyxl
    book = openpyxl.Workbook()
    book.remove(book.active)
    for name, (top, left), hidden, rows in SHEETS:
        sheet = book.create_sheet(name)
        sheet.sheet_state = "hidden" if hidden else "visible"
        for r, row in enumerate(rows):
            for c, value in enumerate(row):
                if value is not None:
                    sheet.cell(top + r + 1, left + c + 1, value)
    book.save("book.xlsx")


def xls():
    import xlwt
    book = xlwt.Workbook()
    day = xlwt.easyxf(num_format_str="yyyy-mm-dd")
    moment = xlwt.easyxf(num_format_str="yyyy-mm-dd hh:mm")
    for name, (top, left), hidden, rows in SHEETS:
        sheet = book.add_sheet(name)
        sheet.visibility = int(hidden)
        for r, row in enumerate(rows):
            for c, value in enumerate(row):
                place = (top + r, left + c)
                if value == ERROR:
                    sheet.row(place[0]).set_cell_error(place[1], ERROR)
                elif isinstance(value, MOMENT):
                    sheet.write(*place, value, moment)
                elif isinstance(value, DAY):
                    sheet.write(*place, value, day)
                elif value is not None:
                    sheet.write(*place, value)
    book.save("book.xls")


def ods():
    from odf.opendocument import OpenDocumentSpreadsheet
    from odf.style import Style, TableProperties
    from odf.table import Table, TableCell, TableRow
    from odf.text import P
    book = OpenDocumentSpreadsheet()
    style = Style(name="hidden", family="table")
    style.addElement(TableProperties(display="false"))
    book.automaticstyles.addElement(style)
    for name, (top, left), hidden, rows in SHEETS:
        sheet = Table(name=name, **({"stylename": style} if hidden else {}))
        if top:
            sheet.addElement(TableRow(numberrowsrepeated=top))
        for row in rows:
            line = TableRow()
            if left:
                line.addElement(TableCell(numbercolumnsrepeated=left))
            for value in row:
                if value is None:
                    cell = TableCell()
                elif isinstance(value, bool):
                    cell = TableCell(valuetype="boolean", booleanvalue=str(value).lower())
                elif isinstance(value, (int, float)):
                    cell = TableCell(valuetype="float", value=value)
                elif isinstance(value, (DAY, MOMENT)):
                    cell = TableCell(valuetype="date", datevalue=value.isoformat())
                else:
                    cell = TableCell(valuetype="string")
                    cell.addElement(P(text=value))
                line.addElement(cell)
            sheet.addElement(line)
        book.spreadsheet.addElement(sheet)
    book.save("book.ods")


def record(kind, data=b""):
    head = bytes([kind]) if kind < 128 else bytes([kind & 0x7f | 0x80, kind >> 7])
    length, size = b"", len(data)
    while True:
        size, low = size >> 7, size & 0x7f
        length += bytes([low | (0x80 if size else 0)])
        if not size:
            return head + length + data


def wide(text):
    return struct.pack("<I", len(text)) + text.encode("utf-16-le")


def serial(value):
    epoch = MOMENT(1899, 12, 30)
    whole = value if isinstance(value, MOMENT) else MOMENT(value.year, value.month, value.day)
    return (whole - epoch) / dt.timedelta(days=1)


def xlsb():
    sheets, bundle, relations = {}, b"", ""
    for number, (name, (top, left), hidden, rows) in enumerate(SHEETS, 1):
        data = record(0x81) + record(0x94, struct.pack("<4I", top, top + len(rows), left, 20))
        data += record(0x91)
        for r, row in enumerate(rows):
            data += record(0x00, struct.pack("<II", top + r, 0) + bytes(9))
            for c, value in enumerate(row):
                place = lambda style: struct.pack("<II", left + c, style)
                if value == ERROR:
                    data += record(0x03, place(0) + b"\x07")
                elif isinstance(value, bool):
                    data += record(0x04, place(0) + bytes([value]))
                elif isinstance(value, int):
                    data += record(0x02, place(0) + struct.pack("<i", value * 4 | 2))
                elif isinstance(value, float):
                    data += record(0x05, place(0) + struct.pack("<d", value))
                elif isinstance(value, MOMENT):
                    data += record(0x05, place(2) + struct.pack("<d", serial(value)))
                elif isinstance(value, DAY):
                    data += record(0x05, place(1) + struct.pack("<d", serial(value)))
                elif value is not None:
                    data += record(0x06, place(0) + wide(value))
        sheets[number] = data + record(0x92) + record(0x82)
        bundle += record(0x9c, struct.pack("<II", hidden, number) + wide(f"rId{number}") + wide(name))
        relations += f'<Relationship Id="rId{number}" Target="worksheets/sheet{number}.bin" Type="x"/>'
    formats = b"".join(record(0x2f, struct.pack("<HH", 0, id) + bytes(12)) for id in (0, 14, 22))
    styles = record(0x116) + record(0x269, struct.pack("<I", 3)) + formats + record(0x26a)
    workbook = record(0x83) + record(0x99, bytes(12)) + record(0x8f) + bundle + record(0x90)
    with zipfile.ZipFile("book.xlsb", "w", zipfile.ZIP_DEFLATED) as book:
        put = lambda name, data: book.writestr(zipfile.ZipInfo(name), data, zipfile.ZIP_DEFLATED)
        put("xl/_rels/workbook.bin.rels", f"<Relationships>{relations}</Relationships>")
        put("xl/workbook.bin", workbook + record(0x84))
        put("xl/styles.bin", styles + record(0x117))
        for number, data in sheets.items():
            put(f"xl/worksheets/sheet{number}.bin", data)


if __name__ == "__main__":
    xlsx()
    xls()
    ods()
    xlsb()
