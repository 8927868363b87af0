/* The words of one plane of a pixel. */
static int plane_words(int channels)
{
    return (channels + 31) / 32;
}
