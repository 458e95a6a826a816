import { Notification } from '@jupyterlab/apputils';
import { nullTranslator } from '@jupyterlab/translation';
import { afterEach, describe, expect, it } from 'vitest';

import { ApiError } from '../data/request';
import { settled } from '../testing/server';
import type { IHpcClient } from '../tokens';
import { confirmAndAct } from './actions';

const trans = nullTranslator.load('jupyter_hpc');

/** A client inside of job 7 that refuses everything with this hint. */
function refusing(hint: string): IHpcClient {
  return {
    session: { value: { job: { id: '7' } } },
    act: () => Promise.reject(new ApiError('Slurm says no.', hint, 403))
  } as unknown as IHpcClient;
}

async function press(label: string): Promise<void> {
  const buttons = document.querySelectorAll<HTMLElement>('.jp-Dialog-button');
  [...buttons].find(({ textContent }) => textContent === label)!.click();
  await settled();
}

async function cancel(id: string, hint = ''): Promise<void> {
  void confirmAndAct(
    refusing(hint),
    'cancel',
    [{ target: id, name: 'a' }],
    trans
  );
  await settled();
}

afterEach(() => Notification.dismiss());

describe('an action', () => {
  it('asks so that Enter alone does not end the own session', async () => {
    await cancel('8');
    expect(document.activeElement?.textContent).toBe('Cancel the Job');
    await press('Back');
    await cancel('7');
    expect(document.activeElement?.textContent).toBe('Back');
    await press('Back');
  });

  it('tells a short refusal as a notification', async () => {
    await cancel('8', 'Ask its owner.');
    await press('Cancel the Job');
    expect(
      Notification.manager.notifications.map(each => each.message)
    ).toEqual(['Slurm says no. Ask its owner.']);
  });

  it('tells a long one in a dialog, which does not cut it off', async () => {
    const hint = 'Read this. '.repeat(20).trim();
    await cancel('8', hint);
    await press('Cancel the Job');
    expect(Notification.manager.notifications).toEqual([]);
    expect(document.querySelector('.jp-Dialog-body')?.textContent).toContain(
      hint
    );
    await press('Dismiss');
  });
});
