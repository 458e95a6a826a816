import { URLExt } from '@jupyterlab/coreutils';
import { ServerConnection } from '@jupyterlab/services';

/** Where the server extension answers, below the server's base address. */
export const NAMESPACE = 'jupyter-hpc';

/** A refusal in words: what happened, and what to do next. */
export class ApiError extends Error {
  constructor(
    message: string,
    readonly hint: string,
    /** The HTTP status; 0 when no answer came at all. */
    readonly status: number
  ) {
    super(message);
    this.name = 'ApiError';
  }
}

/**
 * Ask the server extension.
 *
 * Every failure is an ApiError that can be shown as it is: the server's own
 * sentence where it gave one, else one about the connection.
 */
export async function requestAPI<T>(
  endPoint: string,
  serverSettings: ServerConnection.ISettings,
  init: RequestInit = {}
): Promise<T> {
  const url = URLExt.join(serverSettings.baseUrl, NAMESPACE, endPoint);
  let response: Response;
  try {
    response = await ServerConnection.makeRequest(url, init, serverSettings);
  } catch {
    throw new ApiError(
      'The Jupyter server does not answer.',
      'The panel tries again by itself.',
      0
    );
  }
  const text = await response.text();
  let body: unknown = null;
  try {
    body = text ? JSON.parse(text) : null;
  } catch {
    // Not ours: a proxy's or the server's own page. Its status says enough.
  }
  if (!response.ok) {
    throw asError(response, body);
  }
  return body as T;
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
