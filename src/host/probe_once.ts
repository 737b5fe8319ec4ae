/** Probes at the first call. A failure may be temporary, such as a full disk: the next call probes again. */
export function probeOnce<T>(probe: () => Promise<T>): () => Promise<T> {
  let probed: Promise<T> | undefined
  return () =>
    (probed ??= probe().catch((error: unknown) => {
      probed = undefined
      throw error
    }))
}
