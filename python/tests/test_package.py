"""The package itself: its types are those of the module, its documentation tells the truth."""

import ast
import doctest
import inspect
from importlib import resources

import shoal
from shoal import _shoal, models


def stubs():
    text = resources.files("shoal").joinpath("_shoal.pyi").read_text()
    return ast.parse(text)


def public(names):
    return {name for name in names if not name.startswith("_")}


def parameters(of):
    return [name for name in inspect.signature(of).parameters if name not in ("self", "cls")]


def arguments(function):
    found = [*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs]
    return [argument.arg for argument in found if argument.arg not in ("self", "cls")]


def test_types_are_those_of_the_module():
    assert resources.files("shoal").joinpath("py.typed").is_file()
    classes, functions = {}, {}
    for node in stubs().body:
        if isinstance(node, ast.ClassDef):
            classes[node.name] = node
        elif isinstance(node, ast.FunctionDef):
            functions[node.name] = node
    module = {name for name in public(dir(_shoal))}
    assert public([*classes, *functions]) == module
    for name, function in functions.items():
        assert arguments(function) == parameters(getattr(_shoal, name)), name
    for name in public(classes):
        written = {node.name: node for node in classes[name].body if isinstance(node, ast.FunctionDef)}
        there = getattr(_shoal, name)
        assert public(written) == public(dir(there)), name
        for method in public(written):
            if callable(getattr(there, method)):
                assert arguments(written[method]) == parameters(getattr(there, method)), f"{name}.{method}"
        if "__new__" in written:
            assert arguments(written["__new__"]) == parameters(there), name


def test_everything_public_is_documented_and_exported():
    exported = {*shoal.__all__, *models.__all__} - {"models", "__version__"}
    assert exported == public(dir(_shoal))
    for name in exported:
        of = getattr(_shoal, name)
        assert of.__doc__, name
        if inspect.isclass(of):
            missing = [member for member in public(dir(of)) if not getattr(of, member).__doc__]
            assert not missing, f"{name}: {missing}"


def test_the_examples_in_the_documentation_work():
    for module in (shoal, models):
        failed, attempted = doctest.testmod(module)
        assert attempted > 0 and failed == 0
