"""The ``narrows`` command.

``main`` begins, ``dispatch`` turns whatever happens into an exit code, ``narrows`` lists the commands. A command is
declared in ``commands``, with ``options`` that several share; what takes rows, plans or processes is in ``tasks``, and
how things look in ``show``. Modules are imported when they are needed, which keeps the help and the Tab key quick.
"""
