import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { type IShownLine, placesOf, valueAt } from './curvescale';
import { formatNumber } from './format';

/** A table that is longer is read by nobody. */
const MAX_ROWS = 100;

interface ICurveTableProps {
  title: string;
  counted: string;
  lines: readonly IShownLine[];
  trans: TranslationBundle;
}

/** The same as the curves in numbers, made when somebody opens it. */
export function CurveTable(props: ICurveTableProps): JSX.Element {
  const { title, counted, lines, trans } = props;
  const [open, setOpen] = React.useState(false);
  return (
    <details onToggle={event => setOpen(event.currentTarget.open)}>
      <summary>{trans.__('As a table')}</summary>
      {open && (
        <table className="jp-Hpc-curve-table">
          <thead>
            <tr>
              <th scope="col">{counted}</th>
              {lines.map(line => (
                <th scope="col" key={line.id}>
                  {line.label || title}
                </th>
              ))}
            </tr>
          </thead>
          <tbody>
            {rowsOf(lines).map(place => (
              <tr key={place}>
                <th scope="row">{formatNumber(place)}</th>
                {lines.map(line => {
                  const found = valueAt(line, place);
                  return (
                    <td key={line.id}>
                      {found?.[0] === place ? formatNumber(found[1]) : ''}
                    </td>
                  );
                })}
              </tr>
            ))}
          </tbody>
        </table>
      )}
    </details>
  );
}

/** At most so many places, evenly taken, with both ends. */
function rowsOf(lines: readonly IShownLine[]): number[] {
  const places = placesOf(lines);
  const step = Math.max(1, (places.length - 1) / (MAX_ROWS - 1));
  const rows = Math.min(places.length, MAX_ROWS);
  return Array.from(
    { length: rows },
    (_, index) => places[Math.round(index * step)]
  );
}
