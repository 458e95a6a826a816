import type { ISettingRegistry } from '@jupyterlab/settingregistry';
import { type ISignal, Signal } from '@lumino/signaling';

/** The settings of one plugin, with the defaults until they are read. */
export class Settings<T extends object> {
  constructor(registry: ISettingRegistry | null, plugin: string, defaults: T) {
    this._value = defaults;
    registry
      ?.load(plugin)
      .then(settings => {
        const apply = (): void => {
          this._value = { ...defaults, ...settings.composite };
          this._changed.emit();
        };
        apply();
        settings.changed.connect(apply);
      })
      .catch(error =>
        console.warn(
          `jupyter-hpc: the settings of ${plugin} are not read`,
          error
        )
      );
  }

  get value(): T {
    return this._value;
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  private readonly _changed = new Signal<this, void>(this);
  private _value: T;
}
