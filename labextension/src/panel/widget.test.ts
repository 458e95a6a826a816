import { MessageLoop } from '@lumino/messaging';
import { Widget } from '@lumino/widgets';
import { expect, it } from 'vitest';

import { HpcPanel } from './widget';

it('takes the keyboard to its first section when it is asked for', () => {
  const panel = new HpcPanel(null);
  Widget.attach(panel, document.body);
  panel.addSection({
    id: 'jobs',
    title: 'Jobs',
    rank: 1,
    content: new Widget()
  });
  MessageLoop.sendMessage(panel, Widget.Msg.ActivateRequest);
  expect(document.activeElement?.textContent).toContain('Jobs');
  panel.dispose();
});
