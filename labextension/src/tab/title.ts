/** Keep the session's name at the front of the browser's title, whoever sets the rest. */
export function nameTitle(name: () => string): () => void {
  let last = '';
  const apply = (): void => {
    const prefix = name() ? `${name()} · ` : '';
    const bare =
      last && document.title.startsWith(last)
        ? document.title.slice(last.length)
        : document.title;
    last = prefix;
    if (document.title !== prefix + bare) {
      document.title = prefix + bare;
    }
  };
  // The title is written at every change of the current document.
  new MutationObserver(apply).observe(document.head, {
    childList: true,
    characterData: true,
    subtree: true
  });
  return apply;
}
