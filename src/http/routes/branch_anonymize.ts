import { Type } from 'typebox'
import { QUOTA_ERRORS } from '../../errors.ts'
import {
  anonymizedBranch,
  changeMaskingRules,
  requireMaskingRules,
  startAnonymization,
} from '../../commands/anonymize.ts'
import { createBranch, lookAtParent } from '../../commands/create_branch.ts'
import { AnonymizedStatus, anonymizedStatusView, MaskingRules } from '../../views/masking.ts'
import { TextMap } from '../../views/text_map.ts'
import { route } from '../route.ts'
import { BranchParams, ProjectParams } from '../path_params.ts'
import { createdView, CreatedBranch, NewBranch } from './branch_create.ts'
import { REFUSALS } from './endpoints.ts'

export const createAnonymizedBranch = route('POST /projects/:project_id/branch_anonymized', {
  summary: 'Create a branch whose data are masked before a client may enter it',
  tag: 'Branch',
  params: ProjectParams,
  body: Type.Object({
    branch_create: Type.Optional(NewBranch),
    masking_rules: Type.Optional(MaskingRules),
    start_anonymization: Type.Optional(
      Type.Boolean({ description: 'As soon as the branch is made; else by anonymize' }),
    ),
    annotation_value: Type.Optional(TextMap),
  }),
  status: 201,
  returns: CreatedBranch,
  errors: [
    'NOT_FOUND',
    'BRANCH_ALREADY_EXISTS',
    'BRANCHES_LIMIT_EXCEEDED',
    'ENDPOINTS_LIMIT_EXCEEDED',
    ...QUOTA_ERRORS,
    ...REFUSALS,
  ],
})
  .ask(({ params, body }, context) => lookAtParent(context, params.project_id, body.branch_create ?? {}))
  .handle(async ({ params, body }, context, look) => {
    const { branch_create = {}, masking_rules: rules = [], start_anonymization: starts = false } = body
    requireMaskingRules(rules)
    // By this annotation the public command line marks it in a list.
    const annotation_value = { ...branch_create.annotation_value, ...body.annotation_value, anonymized: 'true' }
    const request = { ...branch_create, annotation_value }
    return createdView(context, await createBranch(context, params.project_id, request, look, { rules, starts }))
  })

export const getMaskingRules = route('GET /projects/:project_id/branches/:branch_id/masking_rules', {
  summary: 'Get the masking rules of an anonymized branch',
  tag: 'Branch',
  params: BranchParams,
  returns: Type.Object({ masking_rules: MaskingRules }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params }, context) => ({
  masking_rules: [...(await anonymizedBranch(context, params)).masking.rules],
}))

export const updateMaskingRules = route('PATCH /projects/:project_id/branches/:branch_id/masking_rules', {
  summary: 'Replace the masking rules of an anonymized branch; they count from its next run on',
  tag: 'Branch',
  params: BranchParams,
  body: Type.Object({ masking_rules: MaskingRules }),
  returns: Type.Object({ masking_rules: MaskingRules }),
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params, body }, context) => ({
  masking_rules: [...(await changeMaskingRules(context, params, body.masking_rules)).masking.rules],
}))

export const getAnonymizedStatus = route('GET /projects/:project_id/branches/:branch_id/anonymized_status', {
  summary: 'Get how far the masking of an anonymized branch is',
  tag: 'Branch',
  params: BranchParams,
  returns: AnonymizedStatus,
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params }, context) => {
  const { branch, masking } = await anonymizedBranch(context, params)
  return anonymizedStatusView(branch, masking)
})

export const anonymizeBranch = route('POST /projects/:project_id/branches/:branch_id/anonymize', {
  summary: 'Mask the data of an anonymized branch by its rules; no client may enter until that has ended',
  tag: 'Branch',
  params: BranchParams,
  returns: AnonymizedStatus,
  errors: ['NOT_FOUND', 'NOT_ALLOWED'],
}).handle(async ({ params }, context) => {
  const { branch, masking } = await startAnonymization(context, params)
  return anonymizedStatusView(branch, masking)
})
