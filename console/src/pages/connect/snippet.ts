/** A text to paste: into a file of this name, or into a shell. */
export interface Part {
  readonly where: string
  readonly text: string
}

/** How one client connects: its parts in the order in which they are pasted. */
export interface Snippet {
  readonly id: string
  readonly title: string
  readonly parts: readonly Part[]
  readonly hint?: string
}

/** A part that is pasted into a shell. */
export const shell = (text: string): Part => ({ where: 'Shell', text })
