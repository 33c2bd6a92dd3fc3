import { RECORDINGS, testTranslations } from './translation-suite.ts'

testTranslations(RECORDINGS, 'gemini', 'bedrock-converse', 'cohere', 'mistral', 'ollama')
