import type { IDisposable } from '@lumino/disposable';

import type { IFeatures } from '../data/api';
import type { IHpcClient } from '../tokens';

/** Remove what belongs to a feature once the server says that the site has it switched off. */
export function removeIfSwitchedOff(
  client: IHpcClient,
  feature: keyof IFeatures,
  handle: IDisposable
): void {
  const onChanged = (): void => {
    if (client.session.value?.features[feature] === false) {
      client.session.changed.disconnect(onChanged);
      handle.dispose();
    }
  };
  client.session.changed.connect(onChanged);
}
