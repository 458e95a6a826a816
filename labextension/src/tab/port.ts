import { PageConfig } from '@jupyterlab/coreutils';
import { UUID } from '@lumino/coreutils';
import { type ISignal, Signal } from '@lumino/signaling';

import type { ILocalPort, IOffer, IPortStatus, Phase } from '../tokens';

/** Where the local port answers for itself; Jupyter has nothing there. */
const OWN_PREFIX = '/_jupyter-hpc/';

/** The names under which a local port can be reached. */
const LOCAL_NAMES = ['localhost', '127.0.0.1', '[::1]'];

/** How often the port is asked: all is well, something is away, nobody looks. */
const CALM_MS = 5_000;
const AWAY_MS = 1_000;
const HIDDEN_MS = 10_000;

/** How long the port, which is on this computer, may take for an answer. */
const ANSWER_MS = 5_000;

/** So many failures in a row mean that nobody keeps the session any more. */
const GONE_AFTER = 2;

/** Whether this page can have come through a local port at all. */
export function mayBeLocal(
  hostname: string = window.location.hostname
): boolean {
  return LOCAL_NAMES.includes(hostname) && !PageConfig.getOption('hubPrefix');
}

/** The local port that this page came through, if there is one; see ILocalPort. */
export class LocalPort implements ILocalPort {
  constructor(private readonly _isLocal: () => boolean = mayBeLocal) {}

  get phase(): Phase | null {
    return this._phase;
  }

  get status(): IPortStatus | null {
    return this._status;
  }

  get name(): string {
    return this._status?.name ?? '';
  }

  get changed(): ISignal<this, void> {
    return this._changed;
  }

  /** Ask from now on, for as long as there is somebody to ask. */
  start(): void {
    document.addEventListener('visibilitychange', () => {
      if (!document.hidden) {
        void this.look();
      }
    });
    void this.look();
  }

  look(): Promise<void> {
    this._looking ??= this._look().finally(() => {
      this._looking = null;
      this._later();
    });
    return this._looking;
  }

  async act(offer: IOffer): Promise<void> {
    const { secret } = (await this._post('tab', {})) as { secret?: string };
    if (!secret) {
      throw new Error('');
    }
    try {
      await this._post(`actions/${offer.action}`, offer.parameters, secret);
    } finally {
      await this.look();
    }
  }

  private async _look(): Promise<void> {
    if (this._isForeign || !this._isLocal()) {
      this._isForeign = true;
      return;
    }
    let answer: Response;
    try {
      answer = await fetch(`${OWN_PREFIX}status?tab=${this._tab}`, {
        cache: 'no-store',
        redirect: 'error',
        signal: AbortSignal.timeout(ANSWER_MS)
      });
    } catch {
      this._failures += 1;
      if (this._status && this._failures >= GONE_AFTER) {
        this._take('gone', this._status);
      }
      return;
    }
    const status = asStatus(await answer.json().catch(() => null));
    if (status) {
      this._failures = 0;
      this._take(phaseOf(status), status);
    } else if (!this._status) {
      this._isForeign = true; // A server of its own: it is not asked again.
    }
  }

  private _later(): void {
    window.clearTimeout(this._timer);
    if (!this._isForeign) {
      const calm = this._phase === null || this._phase === 'open';
      const pause = document.hidden ? HIDDEN_MS : calm ? CALM_MS : AWAY_MS;
      this._timer = window.setTimeout(() => void this.look(), pause);
    }
  }

  private _take(phase: Phase, status: IPortStatus): void {
    const before = JSON.stringify([this._phase, this._status]);
    this._phase = phase;
    this._status = status;
    if (JSON.stringify([phase, status]) !== before) {
      this._changed.emit();
    }
  }

  private async _post(
    path: string,
    body: Record<string, string>,
    secret = ''
  ): Promise<unknown> {
    const answer = await fetch(OWN_PREFIX + path, {
      method: 'POST',
      redirect: 'error',
      headers: {
        'Content-Type': 'application/json',
        'X-Jupyter-Hpc-Secret': secret
      },
      body: JSON.stringify(body)
    });
    const value: unknown = await answer.json();
    if (!answer.ok) {
      throw new Error(text((value as { message?: unknown }).message));
    }
    return value;
  }

  private readonly _changed = new Signal<this, void>(this);
  /** By which the port knows whether this tab has heard how the session ended. */
  private readonly _tab = UUID.uuid4();
  private _phase: Phase | null = null;
  private _status: IPortStatus | null = null;
  private _looking: Promise<void> | null = null;
  private _isForeign = false;
  private _failures = 0;
  private _timer = 0;
}

/** What a status means for the tab that hears it. */
export function phaseOf(status: IPortStatus): Phase {
  if (status.open) {
    return 'open';
  }
  switch (status.state) {
    case 'ended':
    case 'failed':
      return 'ended';
    case 'ready':
    case 'reconnecting':
      return 'cut';
    default:
      return 'starting';
  }
}

interface IAnswer {
  open?: unknown;
  status?: Record<string, unknown>;
  view?: { buttons?: Record<string, unknown>[] };
}

/** What the port says of its session; null for any other server's answer. */
function asStatus(value: unknown): IPortStatus | null {
  const { open, status, view } = (value ?? {}) as IAnswer;
  if (typeof open !== 'boolean' || !status || !Array.isArray(view?.buttons)) {
    return null;
  }
  return {
    open,
    name: text(status.cluster),
    state: text(status.state),
    text: text(status.text),
    jobId: text(status.job_id),
    node: text(status.node),
    needsPerson: text(status.needs_person),
    renewal: text(status.renewal),
    since: typeof status.since === 'number' ? status.since : 0,
    serverEnded: asEnd(status.server_ended),
    offers: view.buttons
      .filter(
        // What is asked for twice on the page stays there.
        button => !Array.isArray(button.confirm) || button.confirm.length === 0
      )
      .map(button => ({
        action: text(button.action),
        label: text(button.label),
        parameters: (button.parameters ?? {}) as Record<string, string>
      }))
  };
}

function asEnd(value: unknown): IPortStatus['serverEnded'] {
  const end = (value ?? {}) as { text?: unknown; at?: unknown };
  return typeof end.at === 'number'
    ? { text: text(end.text), at: end.at }
    : null;
}

function text(value: unknown): string {
  return typeof value === 'string' ? value : '';
}
