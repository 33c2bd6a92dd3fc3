import { RECORDINGS, testTranslations } from './translation-suite.ts'

testTranslations(RECORDINGS, 'openai-responses', 'anthropic-messages')
