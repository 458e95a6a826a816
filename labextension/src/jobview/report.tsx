import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { IJobReport } from '../data/api';
import { sentences, tell } from '../jobs/actions';
import type { IHpcClient } from '../tokens';

interface IReportProps {
  client: IHpcClient;
  id: string;
  trans: TranslationBundle;
}

/** Makes a page about the job, and hands it to the browser as a file. */
export function ReportButton(props: IReportProps): JSX.Element {
  const { client, id, trans } = props;
  const [busy, setBusy] = React.useState(false);
  const make = async (): Promise<void> => {
    setBusy(true);
    try {
      keep(await client.jobReport(id));
    } catch (error) {
      tell(sentences(error), trans);
    } finally {
      setBusy(false);
    }
  };
  return (
    <button
      className="jp-Hpc-choice"
      disabled={busy}
      title={trans.__(
        'One page with times, use, curves, figures and advice, as a file'
      )}
      onClick={() => void make()}
    >
      {busy ? trans.__('Making the report…') : trans.__('Report')}
    </button>
  );
}

function keep({ file, page }: IJobReport): void {
  const address = URL.createObjectURL(new Blob([page], { type: 'text/html' }));
  const link = document.createElement('a');
  link.href = address;
  link.download = file;
  link.click();
  URL.revokeObjectURL(address);
}
