import type { Branch } from '../catalog/branch.ts'
import {
  findMasking,
  insertMasking,
  type Masking,
  type MaskingRule,
  setAnonymizing,
  setMaskingRules,
} from '../catalog/masking.ts'
import type { Operation } from '../catalog/operation.ts'
import type { Db } from '../catalog/catalog.ts'
import { AppError } from '../errors.ts'
import { createBranch as createBranchAction } from '../operations/create_branch.ts'
import { requestOperation } from '../operations/request.ts'
import type { CommandContext } from './command.ts'
import { type BranchId, lockedProject, requireBranch, requireData, requireProject } from './require.ts'

/** How a new branch is to be anonymized. */
export interface Anonymization {
  readonly rules: readonly MaskingRule[]
  /** Whether that begins as soon as the branch is made. */
  readonly starts: boolean
}

/** An anonymized branch with its rules and its last run. */
export interface AnonymizedBranch {
  readonly branch: Branch
  readonly masking: Masking
}

/** Errors: NOT_ALLOWED (a rule has not exactly one of a function and a value). */
export function requireMaskingRules(rules: readonly MaskingRule[]): void {
  for (const [index, { masking_function, masking_value, column_name }] of rules.entries())
    if ((masking_function === undefined) === (masking_value === undefined))
      throw new AppError(
        'NOT_ALLOWED',
        `masking_rules.${index} (${column_name}): give masking_function or masking_value, one of both.`,
      )
}

/** Makes a branch that the transaction inserts an anonymized one. Returns the operations that mask it. */
export async function anonymizeNew(tx: Db, branch: Branch, { rules, starts }: Anonymization): Promise<Operation[]> {
  await insertMasking(tx, branch.id, rules)
  return starts ? [await queueMasking(tx, branch)] : []
}

async function queueMasking(tx: Db, { id, account_id, project_id }: Branch): Promise<Operation> {
  await setAnonymizing(tx, id)
  const subject = { account_id, project_id, branch_id: id }
  return requestOperation(tx, createBranchAction, subject, { parent_id: id, anonymizes: true })
}

/** The rules and the last run of an anonymized branch. Errors: NOT_FOUND, NOT_ALLOWED (it is no anonymized branch). */
export async function anonymizedBranch(context: CommandContext, id: BranchId): Promise<AnonymizedBranch> {
  await requireProject(context, id.project_id)
  return requireAnonymized(context, id)
}

async function requireAnonymized(context: CommandContext, id: BranchId): Promise<AnonymizedBranch> {
  const branch = await requireBranch(context, id.project_id, id.branch_id)
  const masking = await findMasking(context.db, branch.id)
  if (!masking)
    throw new AppError(
      'NOT_ALLOWED',
      `The branch ${branch.id} is no anonymized branch: create one by branch_anonymized.`,
    )
  return { branch, masking }
}

/** Replaces the rules of an anonymized branch. Errors: NOT_FOUND, LOCKED, NOT_ALLOWED. */
export async function changeMaskingRules(
  context: CommandContext,
  id: BranchId,
  rules: readonly MaskingRule[],
): Promise<AnonymizedBranch> {
  await lockedProject(context, id.project_id)
  const { branch } = await requireAnonymized(context, id)
  requireMaskingRules(rules)
  if (branch.masking_state === 'anonymizing')
    throw new AppError('NOT_ALLOWED', 'The branch is being anonymized: change its rules once that has ended.')
  await setMaskingRules(context.db, branch.id, rules)
  return requireAnonymized(context, id)
}

/**
 * Masks the data of an anonymized branch by its rules. Its compute is stopped for that, and no client may enter until
 * the end. Errors: NOT_FOUND, LOCKED, NOT_ALLOWED.
 */
export async function startAnonymization(context: CommandContext, id: BranchId): Promise<AnonymizedBranch> {
  const { db } = context
  await lockedProject(context, id.project_id)
  const { branch } = await requireAnonymized(context, id)
  if (branch.masking_state === 'anonymizing')
    throw new AppError('NOT_ALLOWED', 'The branch is being anonymized already.')
  requireData(branch)
  await queueMasking(db, branch)
  return requireAnonymized(context, id)
}
