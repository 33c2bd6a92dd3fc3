/** What a model supports, derived from its name. An unknown name is taken for a model of the newest kind. */
export type CohereModelFamily = {
  /** Thinks unless disabled, and accepts its thinking of earlier turns. */
  readonly thinks: boolean
  /** `tool_choice` is "only compatible with models Command-r7b and newer" (v2/chat reference). */
  readonly supportsToolChoice: boolean
}

const BEFORE_R7B = /^command(?:-light|-nightly|-light-nightly)?$|^command-r(?:-plus)?(?:-\d\d-2024)?$/
const WITHOUT_THINKING = /^command-(?:r7b|a-03-2025|a-vision|a-translate)|(?:^|-)aya(?:-|$)/

export const familyOf = (model: string): CohereModelFamily => {
  const name = model.toLowerCase()
  const older = BEFORE_R7B.test(name)
  return { thinks: !older && !WITHOUT_THINKING.test(name), supportsToolChoice: !older }
}
