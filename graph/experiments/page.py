"""An experiment's report as one HTML file that needs nothing else."""

from collections.abc import Sequence
from pathlib import Path

from jinja2 import Environment, StrictUndefined

from checkpoints.faults import storage_errors
from graph.experiments.findings import TaskFindings
from graph.experiments.plan import Plan, jobs
from graph.experiments.plots import svg
from graph.experiments.report import comparison_text, figure_text, measure, notes, power, replies_text, rule
from graph.experiments.significance import CONFIDENCE

_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{{ plan.name }}</title>
<style>
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 75rem; padding: 0 1rem; color: #222; }
table { border-collapse: collapse; margin: 1rem 0; }
th, td { border-bottom: 1px solid #ddd; padding: .3rem .8rem; text-align: left; vertical-align: top; }
svg { max-width: 100%; height: auto; }
.yes { font-weight: 600; }
.no { color: #666; }
</style>
</head>
<body>
<h1>{{ plan.name }}</h1>
<p>{{ ended }} of {{ count }} searches have ended. Figures are {{ measure }}: geometric means over the searches of a
cell, in brackets {{ confidence }} intervals (Student's t on logarithms). In the curves, lines are means and areas go
from the worst search to the best.</p>
{{ curves }}
{% for task in found %}
<h2>{{ task.task }}: {{ task.objective.name }} in {{ task.objective.unit }}</h2>
<table>
<tr><th>cell</th><th>options</th><th>searches</th>
{%- for item in task.cells[0].figures %}<th>at {{ item.budget }}</th>{% endfor %}<th>distinct replies</th></tr>
{% for cell in task.cells %}
<tr><td>{{ cell.cell }}</td>
<td>{% for key, value in options[cell.cell].items() %}{{ key }} = {{ value }}<br>{% endfor %}</td>
<td>{{ cell.searches | length }}</td>
{%- for item in cell.figures %}<td>{{ figure_text(item, task.objective.unit) }}</td>{% endfor %}
<td>{{ replies_text(cell) }}</td></tr>
{% endfor %}
</table>
{% for note in notes(task) %}<p>{{ note }}</p>{% endfor %}
{% if task.comparisons %}
<h3>Compared at {{ task.comparisons[0].budget }}</h3>
<table>
<tr><th>comparison</th><th>supported by the data</th></tr>
{% for item in task.comparisons %}
<tr class="{{ 'yes' if item.supported else 'no' }}"><td>{{ comparison_text(item) }}</td>
<td>{{ 'yes' if item.supported else 'no' }}</td></tr>
{% endfor %}
</table>
{% endif %}
{% endfor %}
<p>How: {{ rule }}.</p>
{% if power %}<p>Note: {{ power }}.</p>{% endif %}
</body>
</html>
"""


def write_page(plan: Plan, found: Sequence[TaskFindings], file: Path) -> None:
    """Write the report with its curves. Raises UsageError without matplotlib, StoreError when it cannot be written."""
    from markupsafe import Markup

    searches = [item for task in found for cell in task.cells for item in cell.searches]
    text = (
        Environment(autoescape=True, undefined=StrictUndefined)
        .from_string(_PAGE)
        .render(
            plan=plan,
            found=found,
            options={cell.name: cell.options for cell in plan.cells},
            ended=sum(item.finished for item in searches),
            count=len(jobs(plan)),
            measure=measure(plan),
            confidence=f"{CONFIDENCE:.0%}",
            curves=Markup(svg(found)),
            rule=rule(found),
            power=power(found),
            figure_text=figure_text,
            replies_text=replies_text,
            comparison_text=comparison_text,
            notes=notes,
        )
    )
    with storage_errors(file):
        file.write_text(text, encoding="utf-8")
