import * as React from 'react';

/** A term and what it is; without a value it is left out. */
export type Fact = [string, React.ReactNode];

/** Facts as a list of terms. */
export function Facts({ rows }: { rows: Fact[] }): JSX.Element {
  return (
    <dl className="jp-Hpc-facts">
      {rows
        .filter(([, value]) => (value ?? '') !== '')
        .map(([term, value]) => (
          <React.Fragment key={term}>
            <dt>{term}</dt>
            <dd>{value}</dd>
          </React.Fragment>
        ))}
    </dl>
  );
}
