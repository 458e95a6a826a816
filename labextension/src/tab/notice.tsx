import type { JupyterFrontEnd } from '@jupyterlab/application';
import type { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import type { ILocalPort, IOffer, IPortStatus } from '../tokens';
import { useSignal } from '../ui/hooks';
import { startKernels, unsaved } from './documents';
import { phaseOf } from './port';
import type { IResumed, Resuming } from './resuming';

interface INoticeProps {
  port: ILocalPort;
  resuming: Resuming;
  shell: JupyterFrontEnd.IShell;
  trans: TranslationBundle;
}

/** What has become of the server behind this tab; nothing while all is well. */
export function Notice(props: INoticeProps): JSX.Element | null {
  const { port, resuming, shell, trans } = props;
  useSignal(port.changed);
  useSignal(resuming.changed);
  const { phase, status, name } = port;
  if (!status) {
    return null;
  }
  const documents = <p>{documentsText(unsaved(shell), trans)}</p>;
  const back = trans.__(
    'To come back, in a terminal: jupyter-hpc connect %1',
    name
  );
  switch (phase) {
    case 'ended':
      return (
        <section className="jp-Hpc-notice jp-mod-ended" role="alert">
          <h2>{trans.__('The session %1 has ended', name)}</h2>
          <p>{status.text}</p>
          {documents}
          <Offers {...props} otherwise={back} />
        </section>
      );
    case 'starting':
      return (
        <section className="jp-Hpc-notice" role="status">
          <h2>{trans.__('The session %1 starts again', name)}</h2>
          {resuming.reason && <p>{resuming.reason}</p>}
          <p>{status.text}</p>
          {documents}
        </section>
      );
    case 'gone':
      return (
        <section className="jp-Hpc-notice jp-mod-ended" role="alert">
          <LastWord status={status} name={name} trans={trans} />
          {documents}
          <p>{back}</p>
        </section>
      );
    case 'cut':
      return status.needsPerson ? (
        <section className="jp-Hpc-notice jp-mod-ended" role="alert">
          <h2>{trans.__('The session %1 needs you', name)}</h2>
          <p>{status.needsPerson}</p>
          {documents}
          <Offers {...props} otherwise={back} />
        </section>
      ) : null;
    default:
      return resuming.resumed ? (
        <Resumed {...props} resumed={resuming.resumed} />
      ) : null;
  }
}

/** Of a port that is gone: what it said last, which nobody can be asked for any more. */
function LastWord(
  props: Pick<INoticeProps, 'trans'> & { status: IPortStatus; name: string }
): JSX.Element {
  const { status, name, trans } = props;
  const gone = trans.__('jupyter-hpc does not run on this computer any more');
  if (phaseOf(status) === 'ended') {
    return (
      <>
        <h2>{trans.__('The session %1 has ended', name)}</h2>
        <p>{status.text}</p>
        <p>{gone}.</p>
      </>
    );
  }
  const said = status.state === 'ready' ? '' : status.text;
  const last = status.needsPerson || said;
  return (
    <>
      <h2>{gone}</h2>
      {last && <p>{trans.__('It said last: %1', last)}</p>}
      {status.jobId && (
        <p>
          {trans.__(
            'Whether job %1 still runs: jupyter-hpc status %2',
            status.jobId,
            name
          )}
        </p>
      )}
    </>
  );
}

/** The buttons that the port offers now, or what to do where it offers none. */
function Offers(props: INoticeProps & { otherwise: string }): JSX.Element {
  const { port, trans, otherwise } = props;
  const [busy, setBusy] = React.useState(false);
  const [problem, setProblem] = React.useState('');
  const offers = port.status?.offers ?? [];
  const take = async (offer: IOffer): Promise<void> => {
    setBusy(true);
    setProblem('');
    try {
      await port.act(offer);
    } catch (error) {
      const said = error instanceof Error ? error.message : '';
      setProblem(said || trans.__('It did not work from here. %1', otherwise));
    }
    setBusy(false);
  };
  return (
    <>
      {offers.length === 0 && <p>{otherwise}</p>}
      {problem && <p role="alert">{problem}</p>}
      {offers.map(offer => (
        <button
          key={offer.action}
          className="jp-mod-styled jp-mod-accept"
          disabled={busy}
          onClick={() => void take(offer)}
        >
          {offer.label}
        </button>
      ))}
    </>
  );
}

/** A quiet line of the status bar: what somebody wanted to save in vain. */
export function Waiting(
  props: Pick<INoticeProps, 'port' | 'resuming' | 'trans'>
): JSX.Element | null {
  const { port, resuming, trans } = props;
  useSignal(port.changed);
  useSignal(resuming.changed);
  const { waiting } = resuming;
  return port.phase === 'open' || waiting.length === 0 ? null : (
    <span className="jp-Hpc-status" role="status">
      {trans.__(
        'Not saved yet: %1. It is saved as soon as the server is there.',
        waiting.join(', ')
      )}
    </span>
  );
}

function Resumed(props: INoticeProps & { resumed: IResumed }): JSX.Element {
  const { port, resuming, trans, resumed } = props;
  const { reason, saved, failed, kernels } = resumed;
  const [starting, setStarting] = React.useState(false);
  const [problem, setProblem] = React.useState('');
  const start = async (): Promise<void> => {
    setStarting(true);
    try {
      await startKernels(kernels);
      resuming.dismiss();
    } catch (error) {
      setProblem(String(error));
      setStarting(false);
    }
  };
  return (
    <section className="jp-Hpc-notice" role="status">
      <h2>
        {trans.__(
          'The session %1 runs again: job %2 on %3',
          port.name,
          resumed.jobId,
          resumed.node
        )}
      </h2>
      {reason && <p>{reason}</p>}
      {saved.length > 0 && <p>{trans.__('Saved: %1.', saved.join(', '))}</p>}
      {failed.length > 0 && (
        <p role="alert">
          {trans.__(
            'Not saved, and still only in this tab: %1.',
            failed.join(', ')
          )}
        </p>
      )}
      {kernels.length > 0 && (
        <p>
          {trans._n(
            'A kernel has ended with its server, and its variables with it: %2.',
            '%1 kernels have ended with their server, and their variables with them: %2.',
            kernels.length,
            kernels.map(context => context.name).join(', ')
          )}
        </p>
      )}
      {problem && <p role="alert">{problem}</p>}
      {kernels.length > 0 && (
        <button
          className="jp-mod-styled jp-mod-accept"
          disabled={starting}
          onClick={() => void start()}
        >
          {trans._n('Start a new kernel', 'Start new kernels', kernels.length)}
        </button>
      )}
      <button
        className="jp-mod-styled jp-mod-reject"
        onClick={() => resuming.dismiss()}
      >
        {trans.__('Close')}
      </button>
    </section>
  );
}

function documentsText(names: string[], trans: TranslationBundle): string {
  if (names.length === 0) {
    return trans.__('All open documents are saved.');
  }
  return trans.__(
    'Not saved yet: %1. These changes stay in this tab, and are saved as soon as a server is there; do not close or reload it.',
    names.join(', ')
  );
}
