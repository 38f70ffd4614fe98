"""Arithmetic in a figure's configuration: `1 / standby_rate`, `epsilon * weighted_backlog`, `growth > 3 * se(growth)`.

A name is a column of the tidy tables or a metric; `experiment.metric` is a metric of another experiment at the same
scenario. Numbers, + - * / **, comparisons, `and`, `or`, and the functions below. Nothing is imported before it is used.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable
from functools import cache
from typing import Any

from elastiqueue.errors import ConfigError

OPERATORS: dict[type, Callable[..., Any]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.Pow: operator.pow, ast.USub: operator.neg, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Eq: operator.eq, ast.And: operator.and_, ast.Or: operator.or_,
}  # fmt: skip
FUNCTIONS = ("abs", "exp", "hypot", "log", "log10", "sqrt", "maximum", "minimum")
ALLOWED = f"must be arithmetic of columns, metrics, numbers, se(metric) and the functions {', '.join(FUNCTIONS)}"


@cache
def parse(text: str) -> ast.expr:
    """The tree of an expression; raises ConfigError with one line."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        _walk(tree, lambda name, part: 1.0, lambda name: lambda *values: 1.0)
    except (SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError, MemoryError):
        raise ConfigError(f"{text!r}: {ALLOWED}") from None
    return tree


def names(text: str) -> list[tuple[str, str]]:
    """Each name in an expression with the part of it that is meant: `mean` or `se`."""
    seen: dict[tuple[str, str], None] = {}
    _walk(parse(text), lambda name, part: seen.setdefault((name, part)) or 1.0, lambda name: lambda *values: 1.0)
    return list(seen)


def split(name: str) -> tuple[str, str]:
    """Experiment and metric of a name; the experiment is empty where none is named."""
    head = name.partition("[")[0]  # an index may be 0.5
    experiment, dot, _ = head.rpartition(".")
    return experiment, name[len(experiment) + len(dot) :]


def evaluate(text: str, lookup: Callable[[str, str], Any]) -> Any:
    """The value of an expression; `lookup` gives the values of a name and part."""
    import numpy as np

    with np.errstate(divide="ignore", invalid="ignore"):
        return _walk(parse(text), lookup, lambda name: getattr(np, name))


def _walk(node: ast.expr, lookup: Callable[[str, str], Any], function: Callable[[str], Callable[..., Any]]) -> Any:
    def value(inner: ast.expr) -> Any:
        return _walk(inner, lookup, function)

    match node:
        case ast.Constant(value=int() | float() as number) if not isinstance(number, bool):
            return float(number)
        case (
            ast.Name()
            | ast.Attribute(value=ast.Name())
            | ast.Subscript(value=ast.Name() | ast.Attribute(value=ast.Name()), slice=ast.Constant() | ast.Tuple())
        ):
            return lookup(ast.unparse(node), "mean")
        case ast.UnaryOp(op=ast.USub()):
            return -value(node.operand)
        case ast.BinOp(op=op) if type(op) in OPERATORS:
            return OPERATORS[type(op)](value(node.left), value(node.right))
        case ast.Compare(ops=[op], comparators=[right]) if type(op) in OPERATORS:
            return OPERATORS[type(op)](value(node.left), value(right))
        case ast.BoolOp(op=op, values=[first, *rest]):
            result = value(first) != 0
            for each in rest:
                result = OPERATORS[type(op)](result, value(each) != 0)
            return result
        case ast.Call(
            func=ast.Name(id="se"), args=[ast.Name() | ast.Attribute() | ast.Subscript() as name], keywords=[]
        ):
            return lookup(ast.unparse(name), "se")
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]) if name in FUNCTIONS and arguments:
            return function(name)(*map(value, arguments))
    raise ValueError(ALLOWED)
