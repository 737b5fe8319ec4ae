/* The messages between the supervisor and a part that it started, over their channel. */

/** From a part. */
export type FromPart =
  /** It is ready. */
  | { readonly ready: true }
  /** It asks for a listening socket that all its kind share, by its number. */
  | { readonly wants: 'listener'; readonly index: number }
  /** It was told to end: it accepts no new work and finishes its current work. Another may take its place. */
  | { readonly draining: true }

/** To a part. */
export type ToPart =
  /** It must end at once. */
  | { readonly stop: true }
  /** Comes with the socket of this number, which the part asked for. */
  | { readonly listener: number }
