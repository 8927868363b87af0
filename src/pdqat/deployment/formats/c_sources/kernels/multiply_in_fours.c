#ifdef IN_FOURS
/* The same for sixteen outputs at a time, as many as there are; gives back how many these are. */
KERNEL int multiply_in_fours(int32_t *sums, const int8_t *weights, const uint8_t *codes, int terms, int outputs)
{
    int output = 0;
    for (; output + 16 <= outputs; output += 16) {
        __m512i sixteen = _mm512_setzero_si512();
        for (int term = 0; term < terms; term += 4) {
            int32_t four;
            memcpy(&four, codes + term, sizeof four);
            __m512i of_all = _mm512_loadu_si512(weights + term * outputs + 4 * output);
            sixteen = _mm512_dpbusd_epi32(sixteen, _mm512_set1_epi32(four), of_all);
        }
        _mm512_storeu_si512(sums + output, sixteen);
    }
    return output;
}
#endif
