import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IBatchPreview } from '../data/api';
import { Scrolled } from '../ui/scrolled';
import { Diff } from './diff';
import { CellLink } from './links';

type Change = IBatchPreview['changes'][number];

/** So many changes of one kind are shown at once; more are folded behind their number. */
const MAX_UNFOLDED = 2;

interface IChangesProps {
  preview: IBatchPreview;
  showCell: (cell: number) => void;
  trans: TranslationBundle;
}

/** What is to be done before, what to know, and every place that reads differently. */
export function Changes(props: IChangesProps): JSX.Element {
  const { preview, trans } = props;
  const { prepare, notices, changes } = preview;
  if (!prepare.length && !notices.length && !changes.length) {
    return (
      <p className="jp-Hpc-quiet">{trans.__('Every cell stays as it is.')}</p>
    );
  }
  return (
    <div className="jp-Hpc-changes">
      {prepare.length > 0 && (
        <>
          <h4>{trans.__('Run these on the login node first')}</h4>
          <Scrolled
            className="jp-Hpc-script"
            label={trans.__('Run these on the login node first')}
          >
            {prepare.map(step => step.command).join('\n')}
          </Scrolled>
        </>
      )}
      {notices.length > 0 && (
        <ul>
          {notices.map((notice, index) => (
            <li key={index}>
              <CellLink {...props} {...notice} /> {notice.message}
            </li>
          ))}
        </ul>
      )}
      {byKind(changes).map(([kind, alike]) => (
        <Kind key={kind} {...{ ...props, kind, alike }} />
      ))}
    </div>
  );
}

/** Changes of one kind in the order of the notebook, the kind that comes first first. */
export function byKind(changes: readonly Change[]): [string, Change[]][] {
  const kinds = new Map<string, Change[]>();
  for (const change of changes) {
    kinds.set(change.what, [...(kinds.get(change.what) ?? []), change]);
  }
  return [...kinds];
}

interface IKindProps extends IChangesProps {
  kind: string;
  alike: Change[];
}

function Kind({ kind, alike, ...props }: IKindProps): JSX.Element {
  const reasons = new Set(alike.map(change => change.why));
  return (
    <details open={alike.length <= MAX_UNFOLDED}>
      <summary>
        {kind} <span className="jp-Hpc-quiet">({alike.length})</span>
        {reasons.size === 1 && (
          <div className="jp-Hpc-quiet">{alike[0].why}</div>
        )}
      </summary>
      <ul>
        {alike.map((change, index) => (
          <li key={index}>
            <CellLink {...props} {...change} />
            <span className="jp-Hpc-quiet">
              {' '}
              {props.trans.__('line %1', change.line)}
              {reasons.size > 1 && `: ${change.why}`}
            </span>
            <Diff
              text={differenceOf(change)}
              label={props.trans.__('In the notebook and in the script')}
            />
          </li>
        ))}
      </ul>
    </details>
  );
}

/** The lines of the notebook, and how they read in the script. */
function differenceOf({ source, before, after }: Change): string {
  return before
    ? [...marked('- ', before), ...(after ? marked('+ ', after) : [])].join(
        '\n'
      )
    : source;
}

function marked(mark: string, text: string): string[] {
  return text.split('\n').map(line => mark + line);
}
