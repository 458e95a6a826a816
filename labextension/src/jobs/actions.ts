import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { JobAction } from '../data/api';
import { ApiError } from '../data/request';
import type { IHpcClient } from '../tokens';

/** So many jobs are named in the question, and sent in one request. */
const MAX_JOBS_NAMED = 8;
const MAX_JOBS_SENT = 100;

/** JupyterLab cuts off what a notification says beyond this. */
const MAX_NOTICE_CHARACTERS = 140;

/** The buttons of the question. */
const BACK = 0;
const DO_IT = 1;

/** A job as the question names it, and as Slurm takes it. */
export interface ITarget {
  target: string;
  name: string;
}

/** Ask, do it, and tell what Slurm said; true if it was done for all of them. */
export async function confirmAndAct(
  client: IHpcClient,
  action: JobAction,
  jobs: ITarget[],
  trans: TranslationBundle
): Promise<boolean> {
  const words = wording(action, jobs.length, trans);
  const warning = endOf(client, action, jobs, trans);
  const { button } = await showDialog({
    title: words.question,
    body: [listed(jobs, trans), warning].filter(Boolean).join(' – '),
    // Enter alone does not end the session.
    defaultButton: warning ? BACK : DO_IT,
    buttons: [
      Dialog.cancelButton({ label: trans.__('Back') }),
      action === 'cancel'
        ? Dialog.warnButton({ label: words.button })
        : Dialog.okButton({ label: words.button })
    ]
  });
  if (!button.accept) {
    return false;
  }
  try {
    for (let start = 0; start < jobs.length; start += MAX_JOBS_SENT) {
      const some = jobs.slice(start, start + MAX_JOBS_SENT);
      const { message } = await client.act(
        action,
        some.map(job => job.target)
      );
      Notification.success(message, { autoClose: 5000 });
    }
    return true;
  } catch (error) {
    tell(sentences(error), trans);
    return false;
  }
}

export function tell(refusal: string, trans: TranslationBundle): void {
  if (refusal.length <= MAX_NOTICE_CHARACTERS) {
    Notification.error(refusal, { autoClose: false });
  } else {
    void showDialog({
      title: trans.__('This was not done'),
      body: refusal,
      buttons: [Dialog.okButton({ label: trans.__('Dismiss') })]
    });
  }
}

/** An error with its hint, as one text. */
export function sentences(error: unknown): string {
  return error instanceof ApiError
    ? `${error.message} ${error.hint}`.trim()
    : String(error);
}

/** A word of warning when the job is the one around this server. */
function endOf(
  client: IHpcClient,
  action: JobAction,
  jobs: ITarget[],
  trans: TranslationBundle
): string {
  const own = client.session.value?.job?.id;
  const ends = action === 'cancel' || action === 'requeue';
  return ends && jobs.some(job => job.target === own)
    ? trans.__('JupyterLab itself runs in job %1 and ends with it.', own)
    : '';
}

function listed(jobs: ITarget[], trans: TranslationBundle): string {
  const named = jobs
    .slice(0, MAX_JOBS_NAMED)
    .map(job => (job.name ? `${job.target} (${job.name})` : job.target));
  if (jobs.length > MAX_JOBS_NAMED) {
    named.push(trans.__('and %1 more', jobs.length - MAX_JOBS_NAMED));
  }
  return named.join(', ');
}

interface IWording {
  question: string;
  button: string;
}

function wording(
  action: JobAction,
  count: number,
  trans: TranslationBundle
): IWording {
  switch (action) {
    case 'cancel':
      return {
        question: trans._n('Cancel this job?', 'Cancel %1 jobs?', count),
        button: trans._n('Cancel the Job', 'Cancel the Jobs', count)
      };
    case 'hold':
      return {
        question: trans._n('Hold this job?', 'Hold %1 jobs?', count),
        button: trans.__('Hold')
      };
    case 'release':
      return {
        question: trans._n('Release this job?', 'Release %1 jobs?', count),
        button: trans.__('Release')
      };
    case 'requeue':
      return {
        question: trans._n(
          'Stop this job and queue it again?',
          'Stop %1 jobs and queue them again?',
          count
        ),
        button: trans.__('Requeue')
      };
  }
}
