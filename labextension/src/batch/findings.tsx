import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IPreflightFinding } from '../data/api';
import { CellLink } from './links';
import { type BatchModel, isError } from './model';

interface IFindingsProps {
  model: BatchModel;
  findings: IPreflightFinding[];
  showCell: (cell: number) => void;
  trans: TranslationBundle;
}

/** What was found before the queue: errors first, each with what to do about it. */
export function Findings(props: IFindingsProps): JSX.Element | null {
  const { model, findings, trans } = props;
  const errors = findings.filter(isError);
  const warnings = findings.filter(finding => !isError(finding));
  if (!findings.length) {
    return null;
  }
  const counted = [
    errors.length && trans._n('%1 error', '%1 errors', errors.length),
    warnings.length && trans._n('%1 warning', '%1 warnings', warnings.length)
  ].filter(Boolean);
  return (
    <section
      className="jp-Hpc-findings"
      aria-label={trans.__('What was found before the queue')}
    >
      <strong>{counted.join(', ')}</strong>
      <ul>
        {[...errors, ...warnings].map((finding, index) => (
          <li
            key={index}
            className={isError(finding) ? 'jp-mod-error' : 'jp-mod-warning'}
          >
            <Place {...props} where={finding.where} /> {finding.message}{' '}
            <span className="jp-Hpc-quiet">{finding.hint}</span>
          </li>
        ))}
      </ul>
      {errors.length > 0 && (
        <label className="jp-Hpc-tick">
          <input
            type="checkbox"
            checked={model.force}
            onChange={event => model.setForce(event.target.checked)}
          />
          {trans.__('Submit it all the same')}
        </label>
      )}
    </section>
  );
}

function Place(props: IFindingsProps & { where: string }): JSX.Element {
  const { where, showCell, trans } = props;
  const cell = /^cell (\d+)$/.exec(where);
  return cell ? (
    <CellLink {...{ showCell, trans }} cell={Number(cell[1])} />
  ) : (
    <span>{where}</span>
  );
}
