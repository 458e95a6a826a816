import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IJobReport, ReportKind } from '../data/api';
import { sentences, tell } from '../jobs/actions';
import type { IHpcClient } from '../tokens';

interface IShareProps {
  client: IHpcClient;
  id: string;
  trans: TranslationBundle;
}

/** Makes a report of the job, and hands it to the browser as a file: a page, or JSON. */
export function ShareReport(props: IShareProps): JSX.Element {
  const { client, id, trans } = props;
  const [busy, setBusy] = React.useState<ReportKind | null>(null);
  const make = async (kind: ReportKind): Promise<void> => {
    setBusy(kind);
    try {
      keep(await client.jobReport(id, kind));
    } catch (error) {
      tell(sentences(error), trans);
    } finally {
      setBusy(null);
    }
  };
  const button = (
    kind: ReportKind,
    name: string,
    title: string
  ): JSX.Element => (
    <button
      className="jp-Hpc-choice"
      disabled={busy !== null}
      title={title}
      onClick={() => void make(kind)}
    >
      {busy === kind ? trans.__('Making the report…') : name}
    </button>
  );
  return (
    <span role="group" aria-label={trans.__('Share')}>
      {button(
        'html',
        trans.__('Report'),
        trans.__(
          'One page with times, use, curves, figures and advice, as a file'
        )
      )}{' '}
      {button(
        'json',
        trans.__('JSON'),
        trans.__('The numbers of the report for programs, as a file')
      )}
    </span>
  );
}

function keep({ file, type, content }: IJobReport): void {
  const address = URL.createObjectURL(new Blob([content], { type }));
  const link = document.createElement('a');
  link.href = address;
  link.download = file;
  link.click();
  URL.revokeObjectURL(address);
}
