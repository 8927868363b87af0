"""Steps as functions in C: the constants of a step, and behind them what it does, pixel by pixel."""

from pdqat.deployment.formats.c_steps import EACH_PIXEL, SUM_PIXELS, Step


def step_function(step: Step, number: int) -> str:
    """With a comment that has a line for every operation of the model."""
    names = [f"row{number}_{index}" for index in range(len(step.rows))]
    constants = [*step.constants]
    for row, name in zip(step.rows, names, strict=True):
        constants += row.definitions(name)
    about = "\n   ".join(step.about)
    body = "\n".join(f"    {line}" for line in _body(step, names))
    return "\n".join([f"/* {about} */", *constants, f"static void step{number}(void)", "{", body, "}"])


def _body(step: Step, names: list[str]) -> list[str]:
    given, made = step.reads[0], step.writes
    seen = step.seen or given
    tensors = f"&{seen.name}, &{made.name}"
    if step.kernel == SUM_PIXELS:
        return [
            "memset(arena.row, 0, sizeof arena.row);",
            *_each_pixel(given.pixels, given.add_to("arena.row")),
            made.write("arena.row", pixel="0"),
        ]
    arguments = ", ".join([*step.arguments, tensors])
    if not step.makes_rows:
        return [f"{step.kernel}({arguments});"]
    rows = given.read("arena.row") if step.kernel == EACH_PIXEL else f"{step.kernel}({arguments}, pixel);"
    operations = [call for row, name in zip(step.rows, names, strict=True) for call in row.calls(name, made)]
    return _each_pixel(made.pixels, [*_gathering(step), rows, *operations, made.write("arena.row")])


def _gathering(step: Step) -> list[str]:
    if step.seen is None:
        return []
    width, kernel = step.writes.width, step.kernel.replace("convolve", "gather")
    arguments = [*step.arguments, f"&{step.reads[0].name}", f"&{step.seen.name}"]
    return [f"if (pixel % {width} == 0)", f"    {kernel}({', '.join(arguments)}, pixel / {width});"]


def _each_pixel(pixels: int, lines: list[str]) -> list[str]:
    return [f"for (int pixel = 0; pixel < {pixels}; pixel++) {{", *(f"    {line}" for line in lines), "}"]
