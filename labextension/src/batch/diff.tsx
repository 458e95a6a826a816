import * as React from 'react';

/** Lines of a unified diff; those of a recipe have no sign. */
export function Diff({
  text,
  label
}: {
  text: string;
  label: string;
}): JSX.Element {
  return (
    // The text scrolls, so the keyboard must reach it.
    // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
    <pre className="jp-Hpc-script jp-Hpc-diff" tabIndex={0} aria-label={label}>
      {text.split('\n').map((line, index) => (
        <span key={index} className={kindOf(line)}>
          {line + '\n'}
        </span>
      ))}
    </pre>
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
