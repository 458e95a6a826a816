import * as React from 'react';

interface IScrolledProps {
  label: string;
  className: string;
  children: React.ReactNode;
}

/** Text as it was written, which scrolls where it is too wide or too long. */
export function Scrolled(props: IScrolledProps): JSX.Element {
  const { label, className, children } = props;
  return (
    <pre
      className={`${className} jp-Hpc-scrolled`}
      role="group"
      aria-label={label}
      // What scrolls must be reached by the keyboard.
      // eslint-disable-next-line jsx-a11y/no-noninteractive-tabindex
      tabIndex={0}
    >
      {children}
    </pre>
  );
}
