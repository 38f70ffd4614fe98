"""Files of results: written under a name of their own and renamed, so that no reader ever sees half of one."""

from __future__ import annotations

import hashlib
import io
import json
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # the workflow writes files each time it is read: no numpy for that
    from numpy.typing import NDArray


def write_atomically(path: str | Path, content: bytes | str) -> None:
    """Write a file as a whole or not at all, whoever else writes it at the same time.

    What is no regular file (/dev/null, a pipe) is written to, never replaced.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    if _is_special(path):
        path.write_bytes(data)
        return
    handle, temporary = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, path)
    except BaseException as error:
        Path(temporary).unlink(missing_ok=True)
        if isinstance(error, OSError):  # a full disk is reported without a file
            raise OSError(error.errno, error.strerror, str(path)) from None
        raise


def _is_special(path: Path) -> bool:
    return path.exists() and not path.is_file()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


def json_text(value: Any) -> str:
    """JSON, indented, numbers as they are."""
    return json.dumps(value, indent=1, sort_keys=True) + "\n"


def write_json(path: str | Path, value: Any) -> None:
    """Write JSON, indented, numbers as they are."""
    write_atomically(path, json_text(value))


def text_digest(text: str) -> str:
    """Digest (64 hex digits) by which damage to a text is noticed."""
    return hashlib.sha256(text.encode()).hexdigest()


def write_checked(path: str | Path, text: str, made_by: str = "") -> None:
    """Write a text, and beside it a hidden file with its digest, by which `read_checked` notices later damage.

    made_by : digest of the specification that it follows from, for `fits`.
    """
    write_atomically(path, text)
    if not _is_special(Path(path)):
        write_atomically(_digest_file(path), f"{text_digest(text)}\n{made_by}\n")


def read_checked(path: str | Path) -> str:
    """Read what `write_checked` wrote; raises ValueError with one line where it was cut or changed since.

    A file without a digest beside it (a copy, say) is taken as it is.
    """
    text, record = Path(path).read_bytes().decode(errors="replace"), _digest_file(path)
    if record.exists() and record.read_text().split("\n")[0] != text_digest(text):
        raise ValueError(f"{path}: is damaged or was edited; delete it and run again")
    return text


def fits(path: str | Path, made_by: str | None = None) -> bool:
    """Whether a file is not there yet, or is as it was written and follows from that specification (None: any)."""
    if not os.path.exists(path):
        return True
    try:
        digest, maker, *_ = _digest_file(path).read_text().split("\n")
        return made_by in (None, maker) and digest == text_digest(Path(path).read_bytes().decode())
    except (OSError, ValueError):
        return False


def _digest_file(path: str | Path) -> Path:
    return Path(path).with_name(f".{Path(path).name}.sha256")


def write_arrays(path: str | Path, meta: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays and a JSON header, its keys in their order, into one .npz file; equal contents give equal bytes."""
    import numpy as np

    buffer = io.BytesIO()
    header = np.frombuffer(json.dumps({"arrays": sorted(arrays), **meta}).encode(), np.uint8)
    np.savez(buffer, allow_pickle=False, **{"meta": header}, **dict(arrays))
    write_atomically(path, buffer.getvalue())


def read_arrays(path: str | Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Read what `write_arrays` wrote; raises ValueError with one line where the file is damaged.

    The check sums of the .npz format cover every array; the file named is the one to delete, in a cache too.
    """
    import numpy as np

    try:
        with np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False) as file:
            arrays = {name: file[name] for name in file.files}
        meta = json.loads(arrays.pop("meta").tobytes())
        if meta.pop("arrays") != sorted(arrays):
            raise ValueError("an array is missing")
        return meta, arrays
    except FileNotFoundError:
        raise ValueError(f"{path}: is not there; run again") from None
    except Exception as error:  # zipfile.BadZipFile, zlib.error and numpy's errors share no base class
        why = " ".join(str(error).split()) or type(error).__name__
        raise ValueError(f"{Path(path).resolve()}: is damaged ({why}); delete it and run again") from None
