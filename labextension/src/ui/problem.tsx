import * as React from 'react';

import type { IProblem } from '../data/api';

/** What happened, and what to do next, in the server's own words. */
export function Problem({ problem }: { problem: IProblem }): JSX.Element {
  return (
    <div className="jp-Hpc-problem" role="status">
      <strong>{problem.message}</strong>
      {problem.hint && <p>{problem.hint}</p>}
    </div>
  );
}
