"""The report: one HTML file about one or several trained problems, that opens from disk and needs no network.

    subject     what is reported on: a problem, batches, and how it was trained
    gather      every section's numbers, as one JSON document
    page        the file: the document, and the styles and scripts in page/ that draw it

A section is a module here that makes a dataclass of a subject, an entry in `gather.SECTIONS`, and a script in
page/scripts/sections.
"""
