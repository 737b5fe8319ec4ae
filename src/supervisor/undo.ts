/** What takes back something that was begun. */
export type Undo = () => Promise<unknown>

/** Takes all back, the last that was begun first, whatever becomes of each. Errors: the first that there was, at the end. */
export async function undoAll(steps: readonly Undo[]): Promise<void> {
  const errors: Error[] = []
  for (const step of steps.toReversed()) {
    try {
      await step()
    } catch (error) {
      errors.push(error as Error)
    }
  }
  if (errors[0]) throw errors[0]
}
