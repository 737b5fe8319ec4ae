/** Reverts one step. */
export type Undo = () => Promise<unknown>

/** Reverts all steps in reverse order, even when some fail. Errors: the first one, at the end. */
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
