import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Scrolled } from '../ui/scrolled';
import { TerminalText } from './terminal';

const LINES = 20;

/** The end of a log as a terminal shows it. */
export function LastLines(props: {
  log: string;
  trans: TranslationBundle;
}): JSX.Element | null {
  const { log, trans } = props;
  const lines = React.useMemo(() => {
    const terminal = new TerminalText();
    terminal.write(log);
    const texts = terminal.lines.map(line =>
      line.segments.map(segment => segment.text).join('')
    );
    return texts.slice(0, lastWritten(texts) + 1).slice(-LINES);
  }, [log]);
  if (lines.length === 0) {
    return null;
  }
  const title = trans.__('Last lines of the log');
  return (
    <section aria-label={title}>
      <h4>{title}</h4>
      <Scrolled className="jp-Hpc-lastlines" label={title}>
        {lines.join('\n')}
      </Scrolled>
    </section>
  );
}

function lastWritten(texts: readonly string[]): number {
  return texts.reduce((last, text, index) => (text.trim() ? index : last), -1);
}
