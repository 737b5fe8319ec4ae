/* What the supervisor and a part that it started say to each other, over the channel between them. */

/** From a part. */
export type FromPart =
  /** It does its work. */
  | { readonly ready: true }
  /** It would accept connections: it is to be sent a socket that all its kind share, by its number. */
  | { readonly wants: 'listener'; readonly index: number }
  /** It was told to end and takes nothing new, but lets go on what it has: another may take its place. */
  | { readonly draining: true }

/** To a part. */
export type ToPart =
  /** It is to end at once. */
  | { readonly stop: true }
  /** The socket of this number, which it asked for, comes with this. */
  | { readonly listener: number }
