/** What a client may reach by a name: the draft of the plan after its access lists, its default route and the data policy. */
import type { Client } from '../../core/accounts.ts'
import type { Require } from '../../core/data-policy.ts'
import { bad, good, type Outcome } from '../../core/failure.ts'
import { combined } from '../accounts/data-policy.ts'
import { allowsName, deniesName, type KeyAccessRules, restrictionsOf } from '../accounts/key-access.ts'
import { allowedDraft, modelNotAllowed, satisfyingDraft, styleNotAllowed } from './allowed-plan.ts'
import { listModels, type ModelSources, mayNameRoute, routeNamed } from './models.ts'
import { type PlanDraft, unknownModel } from './plan.ts'

/** A request as far as it decides what may be reached. */
export type DraftRequest = {
  readonly client: Pick<Client, 'access' | 'defaultRoute'>
  /** What is required by all but the route; null: nothing. */
  readonly require: Require | null
  /** The API style of the call. */
  readonly style: string
  /** The model name as the client sent it. */
  readonly model: string
  /** Names for the error of a name that may not be used; absent: those of the list of models. */
  readonly names?: () => readonly string[]
  /** A chat request, for which `rules` and the default route of a key replace the usual default. */
  readonly isChat: boolean
  /** The route of the first rule that the request meets; null: none. */
  readonly ruled: (() => string | null) | null
}

/** `require`: what every target satisfies; null: nothing is required. */
export type PermittedDraft = { readonly draft: PlanDraft; readonly require: Require | null }

/** `draftOf`: the draft for a name, which may be cached. */
export const permittedDraft = (
  sources: ModelSources,
  request: DraftRequest,
  draftOf: (name: string) => Outcome<PlanDraft>,
): Outcome<PermittedDraft> => {
  const { client, style, model, isChat } = request
  const { config, lists, catalogue } = sources
  const rules = restrictionsOf(client)
  if (rules && !allowsName(rules.styles, style)) return bad(styleNotAllowed(style))
  const found = draftOf(model)
  const isDefault = isChat && found.ok && found.value.by === 'default'
  const instead = isDefault ? (request.ruled?.() ?? client.defaultRoute) : null
  const named =
    instead !== null
      ? { route: instead, requested: null, found: draftOf(instead) }
      : { route: model, requested: model, found }
  const require = combined(request.require, routeOf(sources, named.found)?.require)
  const usable = () => listModels(config, lists, catalogue, { rules, require }).map(({ id }) => id)
  const names = request.names ?? usable
  const allowed = rules ? allowedBy(sources, { rules, model, names, ...named }) : named.found
  if (!allowed.ok) return allowed
  const draft = require ? satisfyingDraft(allowed.value, require, model) : allowed
  return draft.ok ? good({ draft: draft.value, require }) : draft
}

/** The route by which a draft was made. */
export const routeOf = ({ config }: Pick<ModelSources, 'config'>, found: Outcome<PlanDraft>) =>
  found.ok && found.value.route !== undefined ? config.routes.get(found.value.route) : undefined

type AccessCheck = {
  readonly rules: KeyAccessRules
  readonly names: () => readonly string[]
  readonly model: string
  /** The name that was planned. */
  readonly route: string
  /** As in `allowedDraft`. */
  readonly requested: string | null
  readonly found: Outcome<PlanDraft>
}

/** The draft with the targets that the access of the client allows. */
const allowedBy = (
  { config }: ModelSources,
  { rules, names, model, route, requested, found }: AccessCheck,
): Outcome<PlanDraft> => {
  const named = routeNamed(config, route)
  // The name of a route may be a glob, of which a list denies one name.
  const isNameAllowed = named ? mayNameRoute(rules, named) && !deniesName(rules.routes, route) : !rules.routesOnly
  if (!isNameAllowed) return bad(modelNotAllowed(model, names()))
  // The error of an unknown name suggests other names: only those that the key may use.
  if (!found.ok) return found.failure.kind === 'unknown_model' && !named ? bad(unknownModel(model, names())) : found
  // The name of a team's own route must not allow what the team may not use by other names.
  const own = named?.team === undefined ? null : rules.team
  const within = own ? allowedDraft(found.value, { rules: own, requested: null, config }) : found.value
  const draft = within && allowedDraft(within, { rules, requested, config })
  return draft ? good(draft) : bad(modelNotAllowed(model, names()))
}
