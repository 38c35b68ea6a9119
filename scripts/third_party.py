"""Write the licences and the SBOM (CycloneDX) of the crates in a program.

Usage: third_party.py PACKAGE TARGET LICENCES SBOM. `scripts/dist.sh` installs cyclonedx-python-lib.
"""

import json
import os
import re
import subprocess
import sys
import uuid
from datetime import datetime, timezone
from pathlib import Path

from cyclonedx.contrib.license.factories import LicenseFactory
from cyclonedx.model import ExternalReference, ExternalReferenceType, XsUri
from cyclonedx.model.bom import Bom, BomMetaData
from cyclonedx.model.component import Component, ComponentType
from cyclonedx.output.json import JsonV1Dot6
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packageurl import PackageURL

# Names of files with a licence or a notice that must accompany the program.
LEGAL = re.compile(r"(licen[cs]e|copying|copyright|notice|unlicense|patents)", re.IGNORECASE)
# This licence names no holder, so its text is the same for all.
APACHE = Path(__file__).resolve().parent.parent / "LICENSE-APACHE"
MUSL = "musl 1.2 (MIT): Copyright © 2005-2020 Rich Felker, et al.; its text is that of LICENSE-MIT."


def cargo(*arguments: str) -> str:
    """Return the output of cargo."""
    command = ["cargo", *arguments, "--locked"]
    return subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout


def crates(package: str, target: str) -> tuple[dict, dict[str, dict], dict[str, list[str]]]:
    """Return the package, all crates that it contains by ID, and their dependencies.

    `cargo metadata` unifies the features of the workspace; `cargo tree` selects those of the
    package. Build scripts and macros are not part of the program, but macros produce code for it.
    """
    metadata = json.loads(cargo("metadata", "--format-version", "1", "--filter-platform", target))
    tree = cargo(
        *("tree", "--package", package, "--target", target, "--edges", "normal"),
        *("--prefix", "none", "--format", "{p}"),
    )
    linked = {tuple(line.split()[:2]) for line in tree.splitlines() if line}
    found = {
        crate["id"]: crate
        for crate in metadata["packages"]
        if (crate["name"], f"v{crate['version']}") in linked
    }
    uses = {
        node["id"]: [dep for dep in node["dependencies"] if dep in found]
        for node in metadata["resolve"]["nodes"]
        if node["id"] in found
    }
    root = next(crate for crate in found.values() if crate["name"] == package)
    return root, dict(sorted(found.items())), uses


def licences(found: dict[str, dict]) -> str:
    """Return all licences and notices, equal texts once."""
    index, texts = [], {}
    for crate in found.values():
        if crate["source"] is None:
            for path in sorted(Path(crate["manifest_path"]).parent.glob("vendor/*/LICENSE")):
                index.append(f"{path.parent.name}: its copy in {crate['name']}")
                texts.setdefault(path.read_text(encoding="utf-8").strip(), []).append(index[-1])
            continue
        name = f"{crate['name']} {crate['version']}"
        files = [
            path
            for path in sorted(Path(crate["manifest_path"]).parent.iterdir())
            if LEGAL.match(path.name) and path.is_file()
        ]
        if not files and "Apache-2.0" in (crate["license"] or ""):
            files = [APACHE]
        if not files:
            sys.exit(f"{name}: the crate has no licence file: add its text to {__file__}")
        index.append(f"{name} ({crate['license'] or files[0].name}): {crate['repository']}")
        for path in files:
            text = path.read_text(encoding="utf-8", errors="replace").strip()
            texts.setdefault(text, []).append(f"{name}, {path.name}")
    head = "This program contains the following software. The texts of the licences follow.\n"
    parts = [head + "\n".join(["", *index, MUSL])]
    parts += ["\n".join(names) + "\n\n" + text for text, names in texts.items()]
    return f"\n\n{'=' * 80}\n\n".join(parts) + "\n"


def sbom(root: dict, found: dict[str, dict], uses: dict[str, list[str]], text: str) -> str:
    """Return the SBOM. Its serial number is a function of the licences, its time of the commit."""
    expression = LicenseFactory().make_from_string

    def component(crate: dict) -> Component:
        of_registry = crate["source"] is not None
        references = []
        if crate["repository"]:
            vcs = ExternalReferenceType.VCS
            references.append(ExternalReference(type=vcs, url=XsUri(crate["repository"])))
        name, version = crate["name"], crate["version"]
        return Component(
            type=ComponentType.APPLICATION if crate is root else ComponentType.LIBRARY,
            name=name,
            version=version,
            bom_ref=f"{name}@{version}",
            purl=PackageURL("cargo", name=name, version=version) if of_registry else None,
            licenses=[expression((crate["license"] or "LicenseRef-file").replace("/", " OR "))],
            external_references=references,
        )

    parts = {key: component(crate) for key, crate in found.items()}
    date = datetime.fromtimestamp(int(os.environ["SOURCE_DATE_EPOCH"]), timezone.utc)
    bom = Bom(
        serial_number=uuid.uuid5(uuid.NAMESPACE_URL, text),
        metadata=BomMetaData(component=parts[root["id"]], timestamp=date),
        components=[part for key, part in parts.items() if key != root["id"]],
    )
    for key, used in uses.items():
        bom.register_dependency(parts[key], [parts[one] for one in used])
    document = JsonV1Dot6(bom).output_as_string(indent=1)
    if error := JsonStrictValidator(SchemaVersion.V1_6).validate_str(document):
        sys.exit(f"the SBOM is not valid CycloneDX 1.6: {error}")
    return document + "\n"


def main() -> None:
    """Write both files."""
    package, target, licences_file, sbom_file = sys.argv[1:]
    root, found, uses = crates(package, target)
    text = licences(found)
    Path(licences_file).write_text(text, encoding="utf-8")
    Path(sbom_file).write_text(sbom(root, found, uses, text), encoding="utf-8")


if __name__ == "__main__":
    main()
