import * as React from 'react';

import { Scrolled } from '../ui/scrolled';

/** Lines of a unified diff; those of a recipe have no sign. */
export function Diff({
  text,
  label
}: {
  text: string;
  label: string;
}): JSX.Element {
  return (
    <Scrolled className="jp-Hpc-script jp-Hpc-diff" label={label}>
      {text.split('\n').map((line, index) => (
        <span key={index} className={kindOf(line)}>
          {line + '\n'}
        </span>
      ))}
    </Scrolled>
  );
}

function kindOf(line: string): string | undefined {
  switch (line[0]) {
    case '+':
      return 'jp-mod-added';
    case '-':
      return 'jp-mod-removed';
    default:
      return undefined;
  }
}
