import { type MouseEvent, useEffect, useState } from 'react'

const SHOWN_MS = 1_500

type Outcome = 'copied' | 'not copied'

/** Copies a text by a click, and says for a moment what came of it. */
export function useCopy(text: string) {
  const [outcome, setOutcome] = useState<Outcome>()
  useEffect(() => {
    if (outcome === undefined) return undefined
    const timer = setTimeout(() => setOutcome(undefined), SHOWN_MS)
    return () => clearTimeout(timer)
  }, [outcome])
  async function copy({ currentTarget }: MouseEvent<HTMLElement>): Promise<void> {
    setOutcome((await written(text, currentTarget)) ? 'copied' : 'not copied')
  }
  return { outcome, copy: (event: MouseEvent<HTMLElement>) => void copy(event) }
}

/** Pages of plain HTTP from another machine have no clipboard (W3C Secure Contexts): a selection can be copied there. */
async function written(text: string, button: HTMLElement): Promise<boolean> {
  const clipboard = navigator.clipboard as Clipboard | undefined
  if (clipboard === undefined) return copiedBySelection(text, button)
  return clipboard.writeText(text).then(
    () => true,
    () => copiedBySelection(text, button),
  )
}

/** The field stands beside the button, since dialogs keep the focus within themselves. */
function copiedBySelection(text: string, button: HTMLElement): boolean {
  const field = document.createElement('textarea')
  field.value = text
  field.className = 'hidden'
  button.after(field)
  field.select()
  const isCopied = document.execCommand('copy')
  field.remove()
  button.focus()
  return isCopied
}
