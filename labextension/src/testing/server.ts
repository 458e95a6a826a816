import { ServerConnection } from '@jupyterlab/services';

/** A server whose answers a test decides: fetch and WebSocket of its own. */
export class FakeServer {
  readonly requests: string[] = [];
  readonly sockets: FakeSocket[] = [];
  /** What each address below the extension answers. */
  answers: Record<string, { status?: number; body: unknown }> = {};
  reachable = true;
  /** Whether the connection breaks after the first bytes of each answer. */
  breaks = false;

  readonly settings = ServerConnection.makeSettings({
    baseUrl: 'http://server/',
    wsUrl: 'ws://server/',
    token: 'secret',
    appendToken: true,
    fetch: (request: RequestInfo | URL) => this._fetch(request as Request),
    WebSocket: this._socketClass()
  });

  get socket(): FakeSocket {
    return this.sockets[this.sockets.length - 1];
  }

  private _fetch(request: Request): Promise<Response> {
    const { pathname } = new URL(request.url);
    const path = pathname.replace('/jupyter-hpc/', '');
    this.requests.push(`${request.method} ${path}`);
    if (!this.reachable) {
      return Promise.reject(new TypeError('no connection'));
    }
    const { status = 200, body } = this.answers[path] ?? {
      status: 404,
      body: 'not found'
    };
    const text = typeof body === 'string' ? body : JSON.stringify(body);
    const sent = this.breaks ? brokenAfter(text.slice(0, 5)) : text;
    return Promise.resolve(new Response(sent, { status }));
  }

  private _socketClass(): typeof WebSocket {
    const { sockets } = this;
    return class extends FakeSocket {
      constructor(url: string) {
        super(url);
        sockets.push(this);
      }
    } as unknown as typeof WebSocket;
  }
}

/** A body whose connection is lost after its first bytes. */
function brokenAfter(start: string): ReadableStream {
  return new ReadableStream({
    start: controller => controller.enqueue(new TextEncoder().encode(start)),
    pull: controller => controller.error(new TypeError('network error'))
  });
}

/** The other end of the stream. */
export class FakeSocket {
  constructor(readonly url: string) {}

  readyState: number = WebSocket.CONNECTING;
  onopen: () => void = () => undefined;
  onclose: () => void = () => undefined;
  onmessage: (event: { data: string }) => void = () => undefined;
  readonly sent: { watch: Record<string, unknown>[] }[] = [];

  send(text: string): void {
    this.sent.push(JSON.parse(text) as { watch: Record<string, unknown>[] });
  }

  close(): void {
    this.readyState = WebSocket.CLOSED;
    this.onclose();
  }

  /** The server accepts. */
  open(): void {
    this.readyState = WebSocket.OPEN;
    this.onopen();
  }

  /** The server says something. */
  say(message: unknown): void {
    this.onmessage({ data: JSON.stringify(message) });
  }

  get watched(): unknown[] {
    return this.sent[this.sent.length - 1]?.watch ?? [];
  }
}

/** Let promises and microtasks that are due run. */
export async function settled(): Promise<void> {
  for (let turn = 0; turn < 10; turn += 1) {
    await Promise.resolve();
  }
}

/** Pretend that the browser tab is hidden, or seen again. */
export function setHidden(hidden: boolean): void {
  Object.defineProperty(document, 'hidden', {
    configurable: true,
    get: () => hidden
  });
  document.dispatchEvent(new Event('visibilitychange'));
}
