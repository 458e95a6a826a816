import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import type { TranslationBundle } from '@jupyterlab/translation';

import type { ILocalPort } from '../tokens';

/** Say what it costs to go on in another job, and ask for it if that is wanted. */
export async function askToRenew(
  port: ILocalPort,
  trans: TranslationBundle
): Promise<void> {
  await port.look();
  const cost = port.status?.renewal;
  if (!cost) {
    Notification.info(
      trans.__('Another job cannot be asked for now, or was asked for already.')
    );
    return;
  }
  const answer = await showDialog({
    title: trans.__('Go on in another job?'),
    body: trans.__(
      'A second job of the same shape is asked for. When it serves, this tab changes to it and the first job is cancelled. %1',
      cost
    ),
    checkbox: {
      label: trans.__('Carry the variables of kernels over'),
      caption: trans.__(
        'As far as they can be written to a file; the others are listed in each notebook.'
      ),
      checked: true
    },
    buttons: [
      Dialog.cancelButton({ label: trans.__('Not now') }),
      Dialog.okButton({ label: trans.__('Renew') })
    ]
  });
  if (!answer.button.accept) {
    return;
  }
  const variables = answer.isChecked ? 'yes' : '';
  try {
    await port.act({
      action: 'renew',
      label: '',
      parameters: { variables, where: 'page' }
    });
    Notification.success(
      trans.__(
        'Another job is asked for. This tab changes to it by itself when it serves and no kernel works.'
      ),
      { autoClose: 10_000 }
    );
  } catch (error) {
    const said = error instanceof Error ? error.message : '';
    Notification.error(
      said || trans.__('jupyter-hpc on this computer did not answer.')
    );
  }
}
