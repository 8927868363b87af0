/* The words of one plane of a pixel. */
KERNEL int plane_words(int channels)
{
    return (channels + 31) / 32;
}
