import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

/** Where the server extension answers, below the server's base address. */
export const NAMESPACE = 'jupyter-hpc';

/** A refusal in words: what happened, and what to do next. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly hint: string,
    /** The HTTP status; 0 when no answer came, or only a part of it. */
    readonly status: number,
    options?: ErrorOptions
  ) {
    super(message, options);
    this.name = 'ApiError';
  }
}

/** What to do after a lost answer to a question that changes nothing. */
const ASK_AGAIN =
  'Check the connection, then try again; open panels try again by themselves.';

/** What to do after a lost answer to a request that changes something. */
export const LOOK_FIRST =
  'It may have been done all the same: look at the list of jobs, then try again.';

/**
 * Ask the server extension.
 *
 * Every failure is an ApiError that can be shown as it is: the server's own
 * sentence where it gave one, else one about the connection, with `afterLoss` as
 * what to do next.
 */
export async function requestAPI<T>(
  endPoint: string,
  serverSettings: ServerConnection.ISettings,
  init: RequestInit = {},
  afterLoss = ASK_AGAIN
): Promise<T> {
  const url = addressOf(endPoint, serverSettings);
  const response = await orLost(
    ServerConnection.makeRequest(url, init, serverSettings),
    'The Jupyter server does not answer.',
    afterLoss
  );
  const text = await orLost(
    response.text(),
    'The connection broke in the middle of the answer.',
    afterLoss
  );
  const body = asJSON(text);
  if (!response.ok) {
    throw asError(response, body);
  }
  if (body === undefined) {
    throw new ApiError(
      'Something else answered in the place of the Jupyter server.',
      'Reload the page; you may have to log in again.',
      response.status
    );
  }
  return body as T;
}

/** Where something of the server extension is. */
export function addressOf(
  endPoint: string,
  serverSettings: ServerConnection.ISettings
): string {
  return URLExt.join(serverSettings.baseUrl, NAMESPACE, endPoint);
}

/** What the network brings; a failure of it becomes a sentence that keeps its cause. */
async function orLost<T>(
  awaited: Promise<T>,
  message: string,
  hint: string
): Promise<T> {
  try {
    return await awaited;
  } catch (cause) {
    throw new ApiError(message, hint, 0, { cause });
  }
}

/** The value; undefined for the page of a proxy or of the server itself. */
function asJSON(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return undefined;
  }
}

function asError(response: Response, body: unknown): ApiError {
  const said = (body ?? {}) as { message?: unknown; hint?: unknown };
  if (typeof said.message === 'string' && said.message) {
    const hint = typeof said.hint === 'string' ? said.hint : '';
    return new ApiError(said.message, hint, response.status);
  }
  if (response.status === 404) {
    return new ApiError(
      'The server extension of jupyter-hpc is not enabled on this server.',
      'Install jupyter-hpc into the environment that the Jupyter server runs in, then restart it.',
      404
    );
  }
  return new ApiError(
    `The server answered ${response.status} ${response.statusText}.`.trim(),
    '',
    response.status
  );
}
