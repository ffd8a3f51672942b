"""Where result rows go: a table on a terminal, CSV, JSON lines, or a file."""

from __future__ import annotations

import errno
import itertools
import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol, TextIO

import pyarrow as pa

from cli.errors import CommandError
from node.io.results.row_formats import FILE_FORMATS, StreamOutput, row_output, sayable
from node.storage.folder import sync_folder
from planner.model.errors import NarrowsError

_WIDTH_MIN = 6
_WIDTH_MAX = 40


class OutputError(NarrowsError):
    """The rows cannot be written where they should go."""


class OutputNameError(CommandError):
    """Rows cannot go where they should, and that is known before there are any."""


def check_file(option: str, path: Path | None) -> None:
    """Whether a file of that name could be written, before anything is done for it.

    Raises OutputNameError if not.
    """
    if path is None:
        return
    folder = path.absolute().parent
    if not folder.is_dir():
        raise OutputNameError(f"{option} requires an existing folder; got {str(path)!r}")
    if path.is_dir():
        raise OutputNameError(f"{option} requires a file; got the folder {str(path)!r}")
    if path.exists() and not path.is_file():
        # It would be replaced by a file when that is whole: /dev/null, for everybody on the machine.
        raise OutputNameError(f"{option} requires a regular file; got the device or pipe {str(path)!r}")
    if not os.access(folder, os.W_OK | os.X_OK) or _is_read_only(folder):
        raise OutputNameError(f"{option} requires a folder that may be written to; got {str(path)!r}")


def _is_read_only(folder: Path) -> bool:
    """Such as /proc, where even those who may do everything can make no file; only trying tells."""
    try:
        with tempfile.TemporaryFile(dir=folder):
            return False
    except OSError as error:
        # A disk that is full may have room by the time the rows come.
        return error.errno not in (errno.ENOSPC, errno.EDQUOT)


def check_out(path: Path | None, form: str | None) -> None:
    """The same for ``--out``, whose name also says the format unless ``form`` does.

    Raises OutputNameError.
    """
    check_file("--out", path)
    if path is not None:
        _file_format(path, form)
    elif sys.stdout is None:
        raise OutputNameError("rows require an open standard output, or --out FILE; got a closed one")


def _file_format(path: Path, form: str | None) -> str:
    form = form or FILE_FORMATS.get(path.suffix)
    if form == "table":
        raise OutputNameError("--format table is for a terminal: --out requires csv or jsonl; got both")
    if form is None:
        raise OutputNameError(f"--out requires a name ending in {', '.join(FILE_FORMATS)}; got {str(path)!r}")
    return form


class Output(Protocol):
    """Takes rows; ``finish`` makes what was written final."""

    #: Whether rows are safe as soon as ``write`` returns; otherwise only after ``finish``.
    safe_at_once: bool

    def write(self, rows: pa.RecordBatch) -> None: ...

    def finish(self) -> None: ...

    def set_aside(self) -> Path | None:
        """Keep what was written, of rows that will never be all; the file that has them, if it is one."""
        ...

    def abandon(self) -> None: ...


def open_output(out: Path | None, form: str | None, schema: pa.Schema) -> Output:
    """The output that the user asked for; OutputError if it cannot be."""
    if out is not None:
        return FileOutput(out, form, schema)
    if form == "none":
        return NoOutput()
    form = form or ("table" if sys.stdout.isatty() else "csv")
    with _printing():
        table = form == "table"
        return PrintedOutput(
            TableOutput(sys.stdout, schema) if table else StreamOutput(sys.stdout.buffer, form, schema)
        )


class PrintedOutput:
    """Rows on standard output, which may be a full disk. That nobody reads on is no error here."""

    safe_at_once = True

    def __init__(self, output: TableOutput | StreamOutput) -> None:
        self._output = output

    def write(self, rows: pa.RecordBatch) -> None:
        with _printing():
            self._output.write(rows)

    def finish(self) -> None:
        with _printing():
            self._output.finish()

    def set_aside(self) -> None:
        self.finish()

    def abandon(self) -> None:
        """What was printed stays."""


@contextmanager
def _printing() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputError(f"cannot write rows to standard output: {error.strerror or error}") from None


class NoOutput:
    """Rows are counted by whoever writes them, and that is all."""

    safe_at_once = True

    def write(self, rows: pa.RecordBatch) -> None:
        """Nothing to do."""

    def finish(self) -> None:
        """Nothing to do."""

    def set_aside(self) -> None:
        """Nothing to do."""

    def abandon(self) -> None:
        """Nothing to do."""


class TableOutput:
    """Aligned columns; widths are set by the header and the first rows."""

    safe_at_once = True

    def __init__(self, stream: TextIO, schema: pa.Schema) -> None:
        self._stream = stream
        self._names = schema.names
        self._widths: list[int] = []
        self._rule = "─" if _can_print(stream, "─") else "-"

    def write(self, rows: pa.RecordBatch) -> None:
        texts = [[_cell(value) for value in sayable(column).to_pylist()] for column in rows.columns]
        if not self._widths:
            self._widths = [_width(name, column) for name, column in zip(self._names, texts, strict=True)]
            self._line(self._names)
            self._line([self._rule * width for width in self._widths])
        for row in zip(*texts, strict=True):
            self._line(list(row))
        self._stream.flush()

    def _line(self, cells: list[str]) -> None:
        fitted = [
            (cell if len(cell) <= width else cell[: width - 1] + "…").ljust(width)
            for cell, width in zip(cells, self._widths, strict=True)
        ]
        print("  ".join(fitted).rstrip(), file=self._stream)

    def finish(self) -> None:
        if not self._widths:
            print("no rows", file=self._stream)


def _can_print(stream: TextIO, letter: str) -> bool:
    try:
        letter.encode(stream.encoding or "ascii")
    except UnicodeEncodeError:
        return False
    return True


def _cell(value: object) -> str:
    return "" if value is None else str(value).replace("\n", "⏎")


def _width(name: str, texts: list[str]) -> int:
    longest = max([len(name), *(len(text) for text in texts[:1000])])
    return min(_WIDTH_MAX, max(_WIDTH_MIN, longest))


class FileOutput:
    """A file that appears under its name only when it is whole."""

    def __init__(self, path: Path, form: str | None, schema: pa.Schema) -> None:
        form = _file_format(path, form)
        self.safe_at_once = False
        # Of a link it is the file behind it that is replaced.
        self._path = path.resolve()
        self._part = self._path.with_name(self._path.name + ".part")
        try:
            self._file = self._part.open("wb")
        except OSError as error:
            raise self._cannot(error) from None
        try:
            self._output = row_output(self._file, form, schema)
        except (OSError, pa.ArrowException) as error:
            self._remove()
            raise self._cannot(error) from None

    def _cannot(self, error: Exception) -> OutputError:
        return OutputError(f"cannot write {self._path}: {getattr(error, 'strerror', None) or error}")

    def write(self, rows: pa.RecordBatch) -> None:
        try:
            self._output.write(rows)
        except (OSError, pa.ArrowException) as error:
            raise self._cannot(error) from None

    def finish(self) -> None:
        self._close_as(self._path)

    def set_aside(self) -> Path:
        """A file of that name may be there, and whole: these rows go beside it, and beside others of their kind."""
        partial = next(path for path in self._partials() if not path.exists())
        self._close_as(partial)
        return partial

    def _partials(self) -> Iterator[Path]:
        yield self._path.with_stem(f"{self._path.stem}.partial")
        for number in itertools.count(2):
            yield self._path.with_stem(f"{self._path.stem}.partial-{number}")

    def _close_as(self, path: Path) -> None:
        try:
            self._output.finish()
            self._file.flush()
            # The site forgets these rows as soon as it is told that they are here.
            os.fsync(self._file.fileno())
            self._file.close()
            self._part.replace(path)
            sync_folder(path.parent)
        except (OSError, pa.ArrowException) as error:
            raise self._cannot(error) from None

    def abandon(self) -> None:
        """Leave no half file behind."""
        self._remove()

    def _remove(self) -> None:
        with suppress(OSError):
            self._file.close()
        self._part.unlink(missing_ok=True)
