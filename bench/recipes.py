"""Counts the lines of each recipe of docs/RULES.md beside those of four other caches, and checks them.

    python3 bench/recipes.py --shoal target/release/shoal

Each folder of bench/recipes is a recipe, with one file for each cache that holds only what the recipe needs. The frames hold
the rest: the listener, the origin. A line of a recipe counts unless it is blank, a comment, or brackets alone. A file whose
first lines say `# none:` has no way to do it, `# nearly:` differs, `# needs` a package that is not checked here. Each recipe
is put into its frame and given to the cache's own checker, where the cache is installed.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

import programs
import rivals
import servers

RECIPES = pathlib.Path(__file__).parent / "recipes"
FRAMES = RECIPES / "frames"

# A cache, the file of a recipe, and the place of lines that name none.
CACHES = [
    ("Shoal", "shoal.toml", "rules"),
    ("nginx", "nginx.conf", "server"),
    ("Squid", "squid.conf", "squid.conf"),
    ("Varnish", "varnish.vcl", "vcl"),
    ("Traffic Server", "trafficserver.config", "remap.config"),
]


class Recipe:
    """One cache's lines for one recipe, by their place in the frame."""

    def __init__(self, path, place):
        self.kind, self.places, self.needs = "alike", {}, None
        for line in path.read_text().splitlines():
            if found := re.fullmatch(r"# in ([a-z.]+).*", line):
                place = found[1]
            elif found := re.match(r"# (none|nearly):", line):
                self.kind = found[1]
            elif found := re.match(r"# needs (.*)", line):
                self.needs = found[1]
            elif line.strip() and not line.strip().startswith("#"):
                self.places.setdefault(place, []).append(line)

    @property
    def count(self):
        return sum(not re.fullmatch(r"[\s\[\]{}();]*", line) for lines in self.places.values() for line in lines)

    @property
    def cell(self):
        if self.kind == "none":
            return "-"
        return f"{self.count}{' ~' if self.kind == 'nearly' else ''}"

    def framed(self, frame):
        """The frame's text with this recipe's lines in their places."""
        made = []
        for line in (FRAMES / frame).read_text().splitlines():
            line, _, unless = line.partition(" # unless ")
            place, _, start = unless.partition(": ")
            words = start.split()
            if words and any(own.split()[: len(words)] == words for own in self.places.get(place, [])):
                continue
            made.append(line)
            if found := re.fullmatch(r"\s*# in ([a-z.]+)", line):
                made += self.places.get(found[1], [])
        return "\n".join(made) + "\n"


def checked(command, folder, objection=None):
    """What the checker objects to, or nothing. Some checkers end well and only say their `objection`."""
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    said = (done.stdout + done.stderr).strip()
    failed = done.returncode != 0 or (objection and re.search(objection, said))
    return said[-600:] if failed else None


def check_shoal(recipe, program, folder):
    text = recipe.framed("shoal.toml").replace("/etc/shoal/", "")
    return checked([program, "check", servers.write(folder, "shoal.toml", text)], folder)


def check_nginx(recipe, program, folder):
    text = f"pid {folder}/pid; error_log stderr;\n" + recipe.framed("nginx.conf")
    file = servers.write(folder, "nginx.conf", text)
    return checked([program, "-t", "-q", "-p", folder, "-c", file, "-e", "stderr"], folder, "warn|emerg")


def check_squid(recipe, program, folder):
    text = recipe.framed("squid.conf") + f"pid_filename {folder}/squid.pid\nlogfile_rotate 0\n"
    servers.write(folder, "storeid.txt", "\n".join(recipe.places.get("storeid.txt", [])).replace("\\t", "\t") + "\n")
    return checked([program, "-k", "parse", "-f", servers.write(folder, "squid.conf", text)], folder, SQUID_OBJECTION)


# Squid warns of each setting that leaves HTTP's rules, as it should.
SQUID_OBJECTION = r"FATAL|ERROR: |unrecognized|WARNING: (?!use of '[a-z-]*' in 'refresh_pattern' violates HTTP)"


def check_varnish(recipe, program, folder):
    file = servers.write(folder, "varnish.vcl", recipe.framed("varnish.vcl"))
    options = " ".join(recipe.places.get("arguments", [])).split()
    return checked([program, "-C", "-n", os.path.join(folder, "work"), *options, "-f", file], folder)


def check_traffic_server(recipe, program, folder):
    for part in ("run", "log", "share", "cache"):
        os.makedirs(os.path.join(folder, part))
    etc = shutil.copytree("/etc/trafficserver", os.path.join(folder, "etc"))
    remap = recipe.framed("remap.config").replace("/ # in map", "/ " + " ".join(recipe.places.get("map", [])))
    servers.write(etc, "remap.config", remap)
    servers.write(etc, "records.config", recipe.framed("records.config"))
    for name in ("cache.config", "plugin.config", "rewrite.config"):
        servers.write(etc, name, "\n".join(recipe.places.get(name, [])) + "\n")
    known = pathlib.Path(program).read_bytes()
    for line in recipe.places.get("records.config", []):
        if line.split()[1].encode() not in known:
            return f"no such record: {line}"
    root = servers.write(folder, "runroot.yaml", rivals.TRAFFIC_SERVER_ROOT.format(folder=folder))
    return checked([program, "-C", "verify_config", f"--run-root={root}"], folder, "ERROR")


CHECKERS = {
    "Shoal": ("shoal", check_shoal),
    "nginx": ("nginx", check_nginx),
    "Squid": ("squid", check_squid),
    "Varnish": ("varnishd", check_varnish),
    "Traffic Server": ("traffic_server", check_traffic_server),
}


def prepare(folder):
    """Files that recipes name."""
    pair = servers.certificate(folder, "P-256")
    for name, source in (("cert.pem", pair[0]), ("key.pem", pair[1]), ("ca.pem", pair[0])):
        shutil.copy(source, os.path.join(folder, name))
    servers.write(folder, "users", "ann:secret\n")
    for name in ("down.html", "error.html"):
        servers.write(folder, name, "<h1>Sorry</h1>\n")
    os.makedirs(os.path.join(folder, "pages"))
    os.chmod(servers.write(folder, "packages.key", "user:password\n"), 0o600)


def check_all(recipes, shoal):
    """Checks each recipe with each cache that is here; returns the number of objections."""
    objections = 0
    for cache, _, _ in CACHES:
        program, check = CHECKERS[cache]
        program = programs.checked(shoal) if cache == "Shoal" else shutil.which(program) or shutil.which(program, path="/usr/sbin:/usr/bin")
        if not program:
            print(f"{cache} is not here: its recipes are unchecked", file=sys.stderr)
            continue
        done, left = 0, 0
        for name, row in recipes.items():
            recipe = row[cache]
            if recipe.needs or recipe.kind == "none":
                left += recipe.needs is not None
                continue
            with tempfile.TemporaryDirectory(prefix="recipes-") as folder:
                os.chmod(folder, 0o755)
                prepare(folder)
                said = check(recipe, os.path.abspath(program), folder)
            done += 1
            if said:
                objections += 1
                print(f"{cache}, {name}:\n{said}\n", file=sys.stderr)
        print(f"{cache}: {done} recipes checked, {left} need a package that is not here", file=sys.stderr)
    return objections


def table(recipes, titles):
    caches = [cache for cache, _, _ in CACHES]
    print("| recipe | " + " | ".join(caches) + " |")
    print("|---|" + "--:|" * len(caches))
    for name, row in recipes.items():
        print(f"| [{titles[name]}](../../bench/recipes/{name}) | " + " | ".join(row[cache].cell for cache in caches) + " |")
    print()
    print("| | " + " | ".join(caches[1:]) + " |")
    print("|---|" + "--:|" * len(caches[1:]))
    sums = {"the same": [], "nearly the same": [], "cannot": [], "lines where the same": [], "lines of Shoal for these": []}
    for cache in caches[1:]:
        alike = [row for row in recipes.values() if row[cache].kind == "alike"]
        sums["the same"].append(len(alike))
        sums["nearly the same"].append(sum(row[cache].kind == "nearly" for row in recipes.values()))
        sums["cannot"].append(sum(row[cache].kind == "none" for row in recipes.values()))
        sums["lines where the same"].append(sum(row[cache].count for row in alike))
        sums["lines of Shoal for these"].append(sum(row["Shoal"].count for row in alike))
    for label, values in sums.items():
        print(f"| {label} | " + " | ".join(map(str, values)) + " |")


def in_order(names):
    """Recipes in the order of docs/RULES.md, with their titles."""
    page = (pathlib.Path(__file__).parents[1] / "docs/RULES.md").read_text()
    titles = {name: (RECIPES / name / "shoal.toml").read_text().splitlines()[0].removeprefix("# ") for name in names}
    unknown = [title for title in titles.values() if f"| {title} |" not in page]
    if unknown:
        sys.exit(f"docs/RULES.md has no row for {unknown}")
    return dict(sorted(titles.items(), key=lambda item: page.index(f"| {item[1]} |")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    programs.add_shoal(parser)
    parser.add_argument("--no-check", action="store_true", help="count only")
    arguments = parser.parse_args()
    titles = in_order([path.name for path in RECIPES.iterdir() if path.is_dir() and path != FRAMES])
    recipes = {
        name: {cache: Recipe(RECIPES / name / file, place) for cache, file, place in CACHES} for name in titles
    }
    objections = 0 if arguments.no_check else check_all(recipes, arguments.shoal)
    table(recipes, titles)
    sys.exit(1 if objections else 0)


if __name__ == "__main__":
    main()
